import { body, Type } from './types.js';

/** Both or none: they are part of a `recording_url`. */
export const recordingQuery = body({
  expires: Type.Optional(Type.Integer({ minimum: 0, description: 'Until when the link is good, in Unix seconds.' })),
  signature: Type.Optional(Type.String({ maxLength: 100, description: 'Makes the link good without a key.' })),
});
