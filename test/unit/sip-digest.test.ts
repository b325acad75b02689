import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Challenger } from '../../sip/auth/challenger.js';
import { answerChallenge, digestResponse, isStale, parseDigest } from '../../sip/auth/digest.js';

const alice = { username: 'alice', password: 'secret' };
const uri = 'sip:us.example';
const passwordOf = (name: string) => (name === 'alice' ? 'secret' : undefined);

function answered(challenges: string[], credentials = alice, method = 'REGISTER'): string {
  const answer = answerChallenge({ status: 401, challenges }, { method, uri }, credentials);
  if (!answer) throw new Error('no answer');
  return answer.value;
}

describe('digest', () => {
  it('computes the examples of RFC 2617 and RFC 7616', () => {
    expect(
      digestResponse({
        algorithm: 'MD5',
        username: 'Mufasa',
        realm: 'testrealm@host.com',
        password: 'Circle Of Life',
        method: 'GET',
        uri: '/dir/index.html',
        nonce: 'dcd98b7102dd2f0e8b11d0f600bfb0c093',
        qop: { nc: '00000001', cnonce: '0a4f113b' },
      }),
    ).toBe('6629fae49393a05397450978507c4ef1');
    expect(
      digestResponse({
        algorithm: 'SHA-256',
        username: 'Mufasa',
        realm: 'http-auth@example.org',
        password: 'Circle of Life',
        method: 'GET',
        uri: '/dir/index.html',
        nonce: '7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v',
        qop: { nc: '00000001', cnonce: 'f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ' },
      }),
    ).toBe('753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1');
  });

  it('reads quoted strings with commas and escapes', () => {
    expect(parseDigest('DIGEST realm="a, \\"b\\"", qop="auth,auth-int",nonce=x , stale=TRUE')).toEqual({
      realm: 'a, "b"',
      qop: 'auth,auth-int',
      nonce: 'x',
      stale: 'TRUE',
    });
    expect(parseDigest('Basic abc')).toBeNull();
  });

  it('answers the strongest challenge it knows, also when several stand on one line', () => {
    const md5 = 'Digest realm="r", nonce="n", algorithm=MD5';
    const sha = 'Digest realm="r", nonce="n", algorithm=SHA-256, opaque="o"';
    expect(answered([md5, sha])).toContain('algorithm=SHA-256');
    expect(answered([`${md5}, ${sha}`])).toContain('opaque="o"');
    expect(answered([md5])).not.toContain('qop');
    expect(answered([`Digest realm="r", nonce="n", algorithm=SHA-512-256`, md5])).toContain('algorithm=MD5');
    expect(
      answerChallenge({ status: 401, challenges: ['Digest realm="r"'] }, { method: 'INVITE', uri }, alice),
    ).toBeNull();
    expect(
      answerChallenge(
        { status: 401, challenges: ['Digest realm="r", nonce="n", qop="auth-int"'] },
        { method: 'INVITE', uri },
        alice,
      ),
    ).toBeNull();
    expect(answerChallenge({ status: 407, challenges: [md5] }, { method: 'INVITE', uri }, alice)?.name).toBe(
      'Proxy-Authorization',
    );
    expect(isStale(['Digest realm="r", stale=true'])).toBe(true);
    expect(isStale(['Digest realm="r", stale=false'])).toBe(false);
  });
});

describe('Challenger', () => {
  beforeEach(() => void vi.useFakeTimers({ now: 1_700_000_000_000 }));
  afterEach(() => void vi.useRealTimers());

  const check = (challenger: Challenger, authorization: string[], target = uri) =>
    challenger.verify({ method: 'REGISTER', uri: target, authorization }, passwordOf).kind;

  it('offers SHA-256 before MD5 and takes both', () => {
    const challenger = new Challenger({ realm: 'r' });
    const challenges = challenger.challenges(false);
    expect(challenges.map((line) => parseDigest(line)?.algorithm)).toEqual(['SHA-256', 'MD5']);
    expect(check(challenger, [answered(challenges)])).toBe('ok');
    expect(check(challenger, [answered(challenger.challenges(false).slice(1))])).toBe('ok');
  });

  it('tells nobody whether a user exists', () => {
    const challenger = new Challenger({ realm: 'r' });
    const wrong = answered(challenger.challenges(false), { username: 'alice', password: 'x' });
    const unknown = answered(challenger.challenges(false), { username: 'bob', password: 'secret' });
    expect(check(challenger, [wrong])).toBe('wrong');
    expect(check(challenger, [unknown])).toBe('wrong');
    expect(challenger.remembered).toBe(0);
  });

  it('asks again for an old or foreign nonce, and for one used twice', () => {
    const challenger = new Challenger({ realm: 'r', nonceLifetimeMs: 60_000 });
    const line = answered(challenger.challenges(false));
    expect(check(challenger, [line])).toBe('ok');
    expect(check(challenger, [line])).toBe('stale');
    const old = answered(challenger.challenges(false));
    vi.advanceTimersByTime(60_001);
    expect(check(challenger, [old])).toBe('stale');
    expect(check(new Challenger({ realm: 'r' }), [answered(challenger.challenges(false))])).toBe('stale');
    expect(challenger.challenges(true)[0]).toContain('stale=true');
  });

  it('accepts a nonce again only with a higher count', () => {
    const challenger = new Challenger({ realm: 'r' });
    const params = parseDigest(challenger.challenges(false)[1] ?? '');
    const nonce = params?.nonce ?? '';
    const use = (nc: string) => {
      const response = digestResponse({
        ...{ algorithm: 'MD5', ...alice, realm: 'r', method: 'REGISTER', uri, nonce, qop: { nc, cnonce: 'c' } },
      } as Parameters<typeof digestResponse>[0]);
      return check(challenger, [
        `Digest username="alice", realm="r", nonce="${nonce}", uri="${uri}", response="${response}", qop=auth, nc=${nc}, cnonce="c"`,
      ]);
    };
    expect(use('00000001')).toBe('ok');
    expect(use('00000002')).toBe('ok');
    expect(use('00000002')).toBe('stale');
    expect(use('0000000a')).toBe('ok');
    expect(use('00000009')).toBe('stale');
  });

  it('refuses a replay also when it had to forget the nonce', () => {
    const challenger = new Challenger({ realm: 'r', maxNonces: 2 });
    const lines: string[] = [];
    for (let i = 0; i < 4; i++) {
      vi.advanceTimersByTime(10);
      lines.push(answered(challenger.challenges(false)));
    }
    for (const line of lines) expect(check(challenger, [line])).toBe('ok');
    expect(challenger.remembered).toBe(2);
    for (const line of lines) expect(check(challenger, [line])).toBe('stale');
  });

  it('is bound to the method and the target', () => {
    const challenger = new Challenger({ realm: 'r' });
    expect(check(challenger, [answered(challenger.challenges(false), alice, 'INVITE')])).toBe('wrong');
    expect(check(challenger, [answered(challenger.challenges(false))], 'sip:other.example')).toBe('wrong');
    expect(check(challenger, [answered(challenger.challenges(false))], 'sip:us.example:5060;transport=udp')).toBe('ok');
  });

  it.each([
    [[], 'missing'],
    [['Basic x'], 'missing'],
    [['Digest realm="other", username="alice"'], 'missing'],
    [['Digest realm="r"'], 'wrong'],
    [['Digest realm="r", username="alice", nonce="x", uri="sip:us.example", response="00"'], 'stale'],
    [
      ['Digest realm="r", username="alice", nonce="x", uri="sip:us.example", response="00", algorithm=MD5-sess'],
      'wrong',
    ],
  ])('%j is %s', (authorization, kind) => {
    expect(check(new Challenger({ realm: 'r' }), authorization)).toBe(kind);
  });
});
