import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { excerpt, redact } from '../src/secrets.js'

const secret = fc.string({ minLength: 3, maxLength: 20, unit: 'grapheme' }).filter((text) => !'***'.includes(text))

/** CPU milliseconds of this process, the minimum of three measurements. */
const cpuMs = (text: string): number =>
  Math.min(
    ...Array.from({ length: 3 }, () => {
      const before = process.cpuUsage()
      redact(text)
      const { user, system } = process.cpuUsage(before)
      return (user + system) / 1000
    }),
  )

describe('secrets', () => {
  it('that are given are not in the text, in whatever spelling they were put there', () => {
    fc.assert(
      fc.property(fc.string(), secret, fc.string(), (before, hidden, after) => {
        // A text around it may complete it anew only with the stars that replace it.
        fc.pre(!hidden.includes('*') && ![before, after].some((text) => text.includes(hidden)))
        for (const spelled of [hidden, encodeURIComponent(hidden), JSON.stringify(hidden)])
          expect(redact(`${before}\n${spelled}\n${after}`, [hidden])).not.toContain(hidden)
      }),
    )
  })

  it.each([
    ['http://ann:pa55@host:8000/v1', 'http://***@host:8000/v1'],
    ['postgres://ann:pa/55@host', 'postgres://***@host'],
    ['https://token@host/x', 'https://***@host/x'],
    ['see a://b/c and git+ssh://ann:p://x@host, or d@e', 'see a://b/c and git+ssh://***@host, or d@e'],
    ['http://host:8000/v1/models', 'http://host:8000/v1/models'],
    ['authorization: Bearer abc.DEF-123_456==', 'authorization: Bearer ***'],
    ['Basic dXNlcjpwYXNz', 'Basic ***'],
    ['Incorrect API key provided: sk-proj-abcDEF_0123456789.', 'Incorrect API key provided: sk-***.'],
    ['hf_abcdefGHIJKL is no token', 'hf_*** is no token'],
    ['/v1?api_key=abc&x=1', '/v1?api_key=***&x=1'],
    ['{"api_key": "ab\\"c", "x": 1}', '{"api_key": "***", "x": 1}'],
    ['http://u:p@ss@host/v1', 'http://***@host/v1'],
    ['http://u:p@ss@host/p@q?r=s@t', 'http://***@host/p@q?r=s@t'],
    ['http://a:b@c,http://d:e@f', 'http://***@c,http://***@f'],
    ['http://a:b@c/,http://d:e@f', 'http://***@c/,http://***@f'],
    ['(u:p@ss@host)', '(***@host)'],
    ['redis:6379 ann:pass@host:6379', 'redis:6379 ***@host:6379'],
    ['node:20@sha256:00aa npm:left-pad@1.3 mailto:ann@host', 'node:20@sha256:00aa npm:left-pad@1.3 mailto:ann@host'],
    ['x-api-key: abc', 'x-api-key: ***'],
    ['{"x-api-key": "abc", "X-Api-Key":"d"}', '{"x-api-key": "***", "X-Api-Key":"***"}'],
    ['authorization: Token', 'authorization: ***'],
    ['WANDB_API_KEY=abc123 HF_TOKEN: def', 'WANDB_API_KEY=*** HF_TOKEN: ***'],
    ['{"AWS_SECRET_ACCESS_KEY": "ab/c", "max_tokens": 5}', '{"AWS_SECRET_ACCESS_KEY": "***", "max_tokens": 5}'],
    ['tml-abc_DEF-1234 and AKIAIOSFODNN7EXAMPLE', 'tml-*** and AKIA***'],
    ['token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-d', 'token eyJ***'],
    ['--wandb: WANDB_API_KEY is not set', '--wandb: WANDB_API_KEY is not set'],
    ['unexpected token: x, the password is missing', 'unexpected token: x, the password is missing'],
    [
      'a risk-averse policy, mask_token, a bearer of news. Basic things',
      'a risk-averse policy, mask_token, a bearer of news. Basic things',
    ],
  ])('by their form: %s', (text, expected) => {
    expect(redact(text)).toBe(expected)
  })

  it('are not in an excerpt, and no piece of one is', () => {
    const key = 'verysecretkey'
    for (let length = 0; length < 40; length++) {
      const shown = excerpt(`it is ${key}, do not tell`, length, [key])
      expect(shown).not.toMatch(/very|key/)
      expect(shown.length).toBeLessThanOrEqual(length + 1)
    }
  })

  it('leave texts without any as they are', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z ,.]*$/), (text) => {
        fc.pre(!/bearer|basic/.test(text))
        expect(redact(text, [''])).toBe(text)
      }),
    )
  })

  it('take time in proportion to the text, whatever it is', () => {
    const pieces = [
      'a',
      'a://',
      'a://b:',
      'a://@',
      '@',
      ':',
      '/',
      '.',
      '=',
      '\\',
      '"',
      ' ',
      'Bearer ',
      'Basic A',
      'sk-',
      '?key=',
      '"password": "',
      'a:b@',
      'A_KEY=',
      'eyJ',
      'AKIA',
      'x-api-key',
      '*',
    ]
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 3 }), (chosen) => {
        const unit = chosen.join('')
        const [short, long] = [20_000, 160_000].map((length) => cpuMs(unit.repeat(length / unit.length)))
        // Eight times the text: 8 in linear time, 64 in quadratic time, in which the short text
        // alone takes 360 ms.
        expect(long! / Math.max(short!, 2)).toBeLessThan(30)
      }),
      { numRuns: 60 },
    )
  })
})
