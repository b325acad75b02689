/**
 * Sign-in at the identity provider: authorization code flow with PKCE (RFC 7636), `state` and `nonce` (OpenID Connect Core 1.0, section 3.1.2.1).
 * What must survive the way there waits in the session storage.
 */
import { answerOf, api } from './client';

const name = 'trunkline.sign-in';

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}

interface Waiting {
  verifier: string;
  state: string;
  nonce: string;
  /** The place in the dashboard that was asked for. */
  hash: string;
}

const redirectUri = () => `${location.origin}/`;

/** Leaves the page for the identity provider. */
export async function beginSignIn(authorizationUrl: string): Promise<void> {
  const verifier = random();
  const state = random();
  const nonce = random();
  sessionStorage.setItem(name, JSON.stringify({ verifier, state, nonce, hash: location.hash } satisfies Waiting));
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  const url = new URL(authorizationUrl);
  url.searchParams.set('redirect_uri', redirectUri());
  url.searchParams.set('state', state);
  url.searchParams.set('nonce', nonce);
  url.searchParams.set('code_challenge', base64url(new Uint8Array(digest)));
  url.searchParams.set('code_challenge_method', 'S256');
  location.assign(url);
}

/** The token after the return from the identity provider; null when this is no return. Throws when the sign-in failed. */
export async function endSignIn(): Promise<string | null> {
  const returned = new URLSearchParams(location.search);
  const waiting = sessionStorage.getItem(name);
  if (waiting === null || (!returned.has('code') && !returned.has('error'))) return null;
  sessionStorage.removeItem(name);
  const { verifier, state, nonce, hash } = JSON.parse(waiting) as Waiting;
  history.replaceState(null, '', `/${hash}`);
  if (returned.has('error')) throw new Error(`The identity provider refused: ${returned.get('error')}`);
  if (returned.get('state') !== state) throw new Error('The answer belongs to another sign-in. Try again.');
  const body = { code: returned.get('code') ?? '', code_verifier: verifier, redirect_uri: redirectUri(), nonce };
  return (await answerOf(api.POST('/sign-in/code', { body }))).token;
}
