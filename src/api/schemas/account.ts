import { body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const mode = oneOf(['live', 'test'], { description: 'Which records the key sees and makes.' });
const role = oneOf(['owner', 'admin', 'member']);
const organization = {
  id: uuid('The id of the organization.'),
  name: Type.String({ description: 'Its name.' }),
  tier: oneOf(['free', 'pro', 'business', 'enterprise'], { description: 'Decides its request limits.' }),
};

const keyFields = {
  id: uuid('The id of the key.'),
  name: Type.String({ description: 'A name for people.' }),
  prefix: Type.String({ description: 'How the key begins.' }),
  mode,
  organization_id: nullable<string>(uuid('The organization it is limited to; null: all of its user.')),
  created_at: time('When it was made.'),
  last_used_at: nullable<string>(time('When it was last used, to the minute.')),
};

const apiKey = Type.Object(keyFields, { $id: 'ApiKey', additionalProperties: false });
const newApiKey = Type.Object(
  {
    ...keyFields,
    key: Type.Optional(
      Type.String({
        description:
          'The key itself. Shown once: an answer with `Idempotent-Replayed: true` lacks it. If the first answer was lost, delete this key and make another.',
      }),
    ),
  },
  { $id: 'NewApiKey', additionalProperties: false },
);
const apiKeyList = Type.Object(listOf('ApiKey').properties, { $id: 'ApiKeyList' });

const me = Type.Object(
  {
    user: Type.Object({
      id: uuid('The id of the user.'),
      name: Type.String({ description: 'Their name.' }),
      platform_owner: Type.Boolean({ description: 'The user of the first key, who runs this installation.' }),
    }),
    mode,
    role,
    organization: Type.Object(organization, { description: 'The one this request acts in.' }),
    organizations: Type.Array(Type.Object({ ...organization, role }), {
      description: 'All the key may act in, in order of joining.',
    }),
    invitations: Type.Array(
      Type.Object({
        organization: Type.Object({ id: organization.id, name: organization.name }),
        role,
        expires_at: time('Until when it can be accepted.'),
      }),
      {
        description:
          'Organizations that ask the user of this token to join. To accept: send any request with the token and the id of the organization as `x-organization-id`.',
      },
    ),
    api_key: nullable<object>(
      Type.Object(
        { id: keyFields.id, name: keyFields.name, prefix: keyFields.prefix },
        { description: 'The key of this request; null: it came with a token.' },
      ),
    ),
  },
  { $id: 'Me', additionalProperties: false },
);

export const accountSchemas = [apiKey, newApiKey, apiKeyList, me];

export const apiKeysQuery = body(sliceQuery);

export const createApiKeyBody = body({
  name,
  mode,
  organization_id: Type.Optional(
    nullable<string>(
      uuid('Limits the key to this organization. Absent or null: as far as the key that makes it reaches.'),
    ),
  ),
});
