import { body, Type } from './types.js';

/** Both parameters are part of a `recording_url`; give both or neither. */
export const recordingQuery = body({
  expires: Type.Optional(Type.Integer({ minimum: 0, description: 'When the link expires, in Unix seconds.' })),
  signature: Type.Optional(
    Type.String({ maxLength: 100, description: 'The signature that authorizes the link without an API key.' }),
  ),
});
