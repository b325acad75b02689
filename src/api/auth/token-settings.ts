import type { Settings } from '../../../config/settings.js';
import type { TokenSettings } from './tokens.js';

/** The settings for tokens of an identity provider; null when none is set. Throws one sentence when only some of the three are set. */
export function tokenSettings({
  jwtIssuer,
  jwtAudience,
  jwksUrl,
}: Pick<Settings, 'jwtIssuer' | 'jwtAudience' | 'jwksUrl'>): TokenSettings | null {
  if (jwtIssuer === null && jwtAudience === null && jwksUrl === null) return null;
  if (jwtIssuer === null || jwtAudience === null || jwksUrl === null)
    throw new Error(
      'TRUNKLINE_JWT_ISSUER, TRUNKLINE_JWT_AUDIENCE and TRUNKLINE_JWKS_URL must be set together or not at all.',
    );
  return { issuers: jwtIssuer, audience: jwtAudience, jwksUrl };
}
