import { useEffect, useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { beginSignIn, endSignIn } from '../api/oidc';
import { useQuery } from '../api/query';
import { hasEnded, setSession } from '../api/session';
import { placeOf } from '../route';
import { Problem } from '../ui/parts';

/** Signs in with a token after the API has accepted it. */
async function signIn(token: string): Promise<void> {
  await answerOf(api.GET('/v1/me', { headers: { authorization: `Bearer ${token}` } }));
  setSession({ token, organizationId: null });
}

/** The code of the one-time link of a fresh server, taken out of the URL. */
function linkCode(): string | null {
  const { path } = placeOf(location.hash);
  if (path[0] !== 'sign-in' || !path[1]) return null;
  history.replaceState(null, '', '/#/');
  return path[1];
}

export function SignIn() {
  const [key, setKey] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, setBusy] = useState(false);
  const ways = useQuery('ways', (signal) => answerOf(api.GET('/sign-in', { signal })));
  const provider = ways.data?.identity_provider as { authorization_url: string | null } | null | undefined;

  const attempt = async (work: () => Promise<void>) => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (problem) {
      setError(problem as Error);
      setBusy(false);
    }
  };
  useEffect(() => {
    const code = linkCode();
    void attempt(async () => {
      if (code !== null) {
        const { token } = await answerOf(api.POST('/sign-in/link', { body: { code } }));
        return signIn(token);
      }
      const token = await endSignIn();
      if (token !== null) return signIn(token);
      setBusy(false);
    });
  }, []);

  return (
    <main class="door">
      <div class="card">
        <a class="brand" href="#/">
          Trunkline
        </a>
        <h1>Sign in</h1>
        {hasEnded && !error && (
          <div class="notice" data-tone="warn" role="alert">
            <strong>Your session has ended</strong>
            <span>The key was revoked, or the token has expired. Sign in again.</span>
          </div>
        )}
        {error && <Problem error={error} />}
        <form
          class="stack"
          onSubmit={(event) => {
            event.preventDefault();
            void attempt(() => signIn(key.trim()));
          }}
        >
          <div class="field">
            <label for="key">API key</label>
            <input
              id="key"
              type="password"
              autocomplete="off"
              spellcheck={false}
              placeholder="trunkline_live_…"
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
            <small>
              The server printed one at its first start. <code>npx trunkline keys create</code> makes another. It stays
              in this tab.
            </small>
          </div>
          <button type="submit" class="first" disabled={isBusy || key.trim() === ''}>
            Sign in
          </button>
        </form>
        {provider && (
          <button
            type="button"
            disabled={isBusy || provider.authorization_url === null}
            onClick={() => attempt(() => beginSignIn(provider.authorization_url ?? ''))}
          >
            {provider.authorization_url === null
              ? 'The identity provider does not answer'
              : 'Sign in at your identity provider'}
          </button>
        )}
      </div>
    </main>
  );
}
