import type { IdentityLogin } from '../../dashboard/identity-login.js';
import type { SignInLink } from '../../dashboard/sign-in-link.js';
import { ApiError } from '../../errors.js';
import { type Route, route } from '../../route.js';
import { body, nullable, Type } from '../../schemas/types.js';

const tag = 'Account';

const credentials = Type.Object(
  { token: Type.String({ description: 'An API key or a token; send it as `Authorization: Bearer`.' }) },
  { $id: 'SignedIn', additionalProperties: false },
);

export const signInSchemas = [credentials];

/** How a person signs in to the dashboard without typing an API key. */
export function signInRoutes({ link, login }: { link?: SignInLink; login?: IdentityLogin }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/sign-in',
      operationId: 'getSignIn',
      tag,
      summary: 'Get the ways to sign in',
      description:
        'Where the identity provider of this installation signs people in (OpenID Connect, authorization code flow with PKCE), if one is configured.',
      access: 'public',
      answer: {
        status: 200,
        description: 'The ways to sign in besides an API key.',
        schema: Type.Object({
          identity_provider: nullable<object>(
            Type.Object(
              {
                authorization_url: nullable<string>(
                  Type.String({
                    description:
                      'The URL to open with `redirect_uri`, `state`, `nonce`, `code_challenge` and `code_challenge_method=S256` added; null while the provider does not answer.',
                  }),
                ),
              },
              { description: 'The identity provider; null if none is configured.' },
            ),
          ),
        }),
      },
      handle: async () => ({
        identity_provider: login ? { authorization_url: await login.authorizationUrl() } : null,
      }),
    }),
    route({
      method: 'POST',
      path: '/sign-in/link',
      operationId: 'signInByLink',
      tag,
      summary: 'Sign in by the link of the first start',
      description:
        'Exchanges the code of the link that a fresh server prints for the first API key. The code is valid once, for an hour after the first start.',
      access: 'public',
      body: body({ code: Type.String({ maxLength: 128, description: 'The code at the end of the link.' }) }),
      answer: { status: 200, description: 'The key.', schema: Type.Unsafe<unknown>({ $ref: 'SignedIn#' }) },
      errors: ['UNAUTHORIZED'],
      handle: ({ body: { code } }) => {
        const token = link?.redeem(code) ?? null;
        if (token === null) throw new ApiError('UNAUTHORIZED', 'The link was used before, or is too old');
        return { token };
      },
    }),
    route({
      method: 'POST',
      path: '/sign-in/code',
      operationId: 'signInByCode',
      tag,
      summary: 'Sign in by a code of the identity provider',
      description: 'Exchanges an authorization code of the identity provider for a token that this API accepts.',
      access: 'public',
      body: body({
        code: Type.String({ maxLength: 4_096, description: 'The `code` of the redirect.' }),
        code_verifier: Type.String({ minLength: 43, maxLength: 128, description: 'The PKCE verifier (RFC 7636).' }),
        redirect_uri: Type.String({
          maxLength: 2_048,
          description: 'The `redirect_uri` of the authorization request.',
        }),
        nonce: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description: 'The `nonce` of the authorization request, if it had one; the ID token must contain it.',
          }),
        ),
      }),
      answer: { status: 200, description: 'The token.', schema: Type.Unsafe<unknown>({ $ref: 'SignedIn#' }) },
      errors: ['UNAUTHORIZED'],
      handle: async ({ body: { code, code_verifier, redirect_uri, nonce } }) => {
        const token =
          (await login?.token({ code, codeVerifier: code_verifier, redirectUri: redirect_uri, nonce })) ?? null;
        if (token === null)
          throw new ApiError('UNAUTHORIZED', 'The identity provider gave no token that this server accepts');
        return { token };
      },
    }),
  ];
}
