/** Origins that a browser may open. */
import * as fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { allowedOrigins, checkAddress } from '../../src/tools/browserOrigins.js'

const allowed = allowedOrigins([
  ...['example.com', 'http://plain.test', 'https://port.test:8443', '*.sub.test'],
  ...['http://127.0.0.1:8080', 'http://[::1]:8080', 'xn--bcher-kva.example'],
])
const goes = (text: string): boolean => E.isRight(checkAddress(allowed, text))

describe('checkAddress', () => {
  it.each([
    ...['https://example.com', 'https://example.com:443/a?b#c', 'HTTPS://Example.COM/', 'https://example.com/ünï'],
    ...['http://plain.test/x', 'https://port.test:8443/', 'https://a.sub.test/', 'https://a.b.sub.test/'],
    ...['http://127.0.0.1:8080/', 'http://[::1]:8080/', 'https://xn--bcher-kva.example/', 'wss://example.com/socket'],
    ...['https://example.com/@evil.test', 'https://example.com?evil@test', 'https://example.com#@evil.test'],
  ])('allows %s', (text) => {
    expect(goes(text)).toBe(true)
  })

  it.each([
    ...[
      'https://evil-example.com',
      'https://evilexample.com',
      'https://example.com.evil.org',
      'https://www.example.com',
    ],
    ...[
      'https://example.com@evil.org',
      'https://evil.org@example.com',
      'https://a:b@example.com/',
      'https://@example.com',
    ],
    ...[
      'https://example.com.',
      'https://example.com../',
      'https://example.com:444',
      'http://example.com',
      'http://example.com:443',
    ],
    ...[
      'https://exаmple.com',
      'https://ｅxample.com',
      'https://example。com',
      'https://bücher.example',
      'https://ex%61mple.com',
    ],
    ...['https://sub.test', 'https://asub.test', 'https://.sub.test', 'https://a..sub.test/', 'https://-.test'],
    ...[
      'http://2130706433:8080',
      'http://0x7f.0.0.1:8080',
      'http://0177.0.0.1:8080',
      'http://127.1:8080',
      'http://127.0.0.1.:8080',
    ],
    ...['http://127.0.0.1', 'http://localhost:8080', 'http://[0:0:0:0:0:0:0:1]:8080', 'http://[::ffff:127.0.0.1]:8080'],
    ...['data:text/html,hi', 'file:///etc/passwd', 'about:blank', 'javascript:alert(1)', 'blob:https://example.com/1'],
    ...[
      'view-source:https://example.com',
      'chrome://settings',
      'ftp://example.com',
      'filesystem:https://example.com/t/a',
      '//example.com',
    ],
    ...[
      'https:example.com',
      'https:/example.com',
      'https:///example.com',
      'https:\\\\example.com',
      'https://evil.org\\@example.com',
    ],
    ...[
      ' https://example.com',
      'https://example.com\n',
      'ht\ttps://example.com',
      'java\nscript:alert(1)',
      'https://example.com\u0000',
    ],
    ...[
      '',
      'example.com',
      'https://',
      'https://example.com:99999',
      `https://example.com/${'a'.repeat(9000)}`,
      '\ud800',
    ],
  ])('refuses %j', (text) => {
    expect(goes(text)).toBe(false)
  })

  it('gives the address as a browser writes it, or says why not', () => {
    expect(checkAddress(allowed, 'HTTPS://Example.com/a/../b')).toEqual(E.right('https://example.com/b'))
    expect(checkAddress(allowed, 'http://evil.test/')).toEqual(E.left('"http://evil.test" is not an allowed origin'))
    expect(checkAddress(allowed, 'http://0x7f.1:8080')).toEqual(
      E.left('"http://0x7f.1:8080": its host must be written as "127.0.0.1"'),
    )
  })

  const label = fc.stringMatching(/^[a-z][a-z0-9]{0,8}$/)
  const host = fc.tuple(label, label).map((parts) => `${parts.join('.')}.example`)

  it('allows a host if and only if it is that host, or below one with a star', () => {
    fc.assert(
      fc.property(host, host, label, (mine, other, sub) => {
        const exact = allowedOrigins([mine])
        const below = allowedOrigins([`*.${mine}`])
        const of = (list: typeof exact, name: string) => E.isRight(checkAddress(list, `https://${name}/`))
        expect(of(exact, mine)).toBe(true)
        expect(of(exact, other)).toBe(other === mine)
        expect([of(exact, `${sub}.${mine}`), of(exact, `${sub}-${mine}`), of(exact, `${mine}.${sub}`)]).toEqual([
          false,
          false,
          false,
        ])
        expect([of(below, `${sub}.${mine}`), of(below, mine), of(below, `${sub}${mine}`)]).toEqual([true, false, false])
      }),
    )
  })

  it('never allows what a browser would take elsewhere, whatever is written', () => {
    const pieces = fc.constantFrom(
      'https://',
      'http:',
      '//',
      '@',
      ':',
      '\\',
      '/',
      '.',
      '%2e',
      '。',
      'example.com',
      'evil.org',
      '127.1',
      '\t',
      '#',
      '?',
      '*',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.array(pieces, { maxLength: 8 }).map((all) => all.join('')),
          fc.string(),
        ),
        (text) => {
          const checked = checkAddress(allowedOrigins(['example.com']), text)
          if (E.isLeft(checked)) return
          const url = new URL(text)
          expect(url.origin.replace('wss:', 'https:')).toMatch(/^https:\/\/example\.com$|^null$/)
          expect([url.hostname, url.username, url.password, url.port]).toEqual(['example.com', '', '', ''])
          expect(checkAddress(allowedOrigins(['example.com']), checked.right)).toEqual(checked)
        },
      ),
      { numRuns: 500 },
    )
  })

  it('allows more with more patterns, and nothing with none', () => {
    fc.assert(
      fc.property(fc.array(host, { minLength: 1 }), host, (hosts, name) => {
        const address = `https://${name}/`
        const few = E.isRight(checkAddress(allowedOrigins(hosts.slice(1)), address))
        expect(E.isRight(checkAddress(allowedOrigins(hosts), address))).toBe(few || hosts[0] === name)
        expect(E.isLeft(checkAddress(allowedOrigins([]), address))).toBe(true)
      }),
    )
  })
})

describe('allowedOrigins', () => {
  it('refuses patterns that no browser would write, all at once', () => {
    const bad = [
      '*',
      '*.com',
      'example.com.',
      'http://0x7f.1',
      '*.127.0.0.1',
      'bücher.example',
      'https://a@b.c',
      'ftp://a.b',
      'a.b:0',
      'a.b/c',
      'EXAMPLE.com',
      '',
      'a..b',
    ]
    for (const pattern of bad) expect(() => allowedOrigins([pattern]), pattern).toThrow(RangeError)
    expect(() => allowedOrigins(['ok.test', '*', 'a.b:0'])).toThrow(
      /"\*" is not of the form .*; "a.b:0": the port must be from 1 to 65535/,
    )
  })
})
