import { body, listOf, name, nullable, oneOf, sliceQuery, Type, time, uuid } from './types.js';

const mode = oneOf(['live', 'test'], { description: 'The mode of the records that the key reads and creates.' });
const role = oneOf(['owner', 'admin', 'member']);
const organization = {
  id: uuid('The id of the organization.'),
  name: Type.String({ description: 'The name of the organization.' }),
  tier: oneOf(['free', 'pro', 'business', 'enterprise'], { description: 'The tier, which sets the request limits.' }),
};

const keyFields = {
  id: uuid('The id of the key.'),
  name: Type.String({ description: 'A name for display.' }),
  prefix: Type.String({ description: 'The first characters of the key.' }),
  mode,
  organization_id: nullable<string>(
    uuid('The organization the key is limited to; null if it may act in every organization of its user.'),
  ),
  created_at: time('When the key was created.'),
  last_used_at: nullable<string>(time('When the key was last used, to the minute; null if never.')),
};

const apiKey = Type.Object(keyFields, { $id: 'ApiKey', additionalProperties: false });
const newApiKey = Type.Object(
  {
    ...keyFields,
    key: Type.Optional(
      Type.String({
        description:
          'The secret key. It is shown once: a response with `Idempotent-Replayed: true` does not contain it. If the first response was lost, delete this key and create another.',
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
      name: Type.String({ description: 'The name of the user.' }),
      platform_owner: Type.Boolean({
        description: 'Whether the user is the platform owner: the user of the first key, who runs this installation.',
      }),
    }),
    mode,
    role,
    organization: Type.Object(organization, { description: 'The organization this request acts in.' }),
    organizations: Type.Array(Type.Object({ ...organization, role }), {
      description: 'All organizations the caller may act in, in order of joining.',
    }),
    invitations: Type.Array(
      Type.Object({
        organization: Type.Object({ id: organization.id, name: organization.name }),
        role,
        expires_at: time('When the invitation expires.'),
      }),
      {
        description:
          'Open invitations of the user of this token. To accept one, send any request with the token and the id of the organization as `x-organization-id`.',
      },
    ),
    api_key: nullable<object>(
      Type.Object(
        { id: keyFields.id, name: keyFields.name, prefix: keyFields.prefix },
        { description: 'The API key of this request; null if it was authorized by a token.' },
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
      uuid(
        'Limits the key to this organization. If absent or null, the new key has the reach of the key that creates it.',
      ),
    ),
  ),
});
