/** The conformance kit: our own server passes, and each check finds the server that breaks it. */
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { tinkerServer } from '../../../../test/kit/tinker.js'
import { checkTinkerServer } from '../../src/check/checkTinkerServer.js'
import type { TinkerCheck, TinkerVerdict } from '../../src/check/measure.js'
import type { TinkerFetch } from '../../src/client/calls.js'

useEngine()

/** Changes the text of a request or of an answer. */
type Change = (text: string, path: string) => string

interface Broken {
  readonly request?: Change
  readonly answer?: Change
  /** A header to leave out. */
  readonly header?: string
  readonly status?: (status: number, path: string) => number
  /** Default: `differs`. */
  readonly verdict?: TinkerVerdict
}

const same: Change = (text) => text

/** The verdicts of a server of ours whose requests and answers are changed. */
const verdicts = async (
  checks: readonly string[] | undefined,
  broken: Broken = {},
): Promise<readonly TinkerCheck[]> => {
  const { request = same, answer = same, header, status: changed = (status: number) => status } = broken
  const app = tinkerServer()
  const fetch: TinkerFetch = async (url, { method, headers, body }) => {
    const sent = typeof body === 'string' ? request(body, new URL(url).pathname) : undefined
    const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => name !== header))
    const reply = await app.fetch(
      new Request(url, { method, headers: kept, ...(sent !== undefined && { body: sent }) }),
    )
    const status = changed(reply.status, new URL(url).pathname)
    return new Response(answer(await reply.text(), new URL(url).pathname), { status, headers: reply.headers })
  }
  const found: TinkerCheck[] = []
  try {
    for await (const check of checkTinkerServer({
      url: 'http://localhost',
      fetch,
      futureMs: 10,
      ...(checks && { checks }),
    }))
      found.push(check)
    return found
  } finally {
    await app.close()
  }
}

const on =
  (route: string, change: (text: string) => string): Change =>
  (text, path) =>
    path.endsWith(route) ? change(text) : text

/** Divides the weights of every request by its number of sequences. */
const averaged = on('/forward_backward', (text) => {
  const sequences = text.split('"model_input"').length - 1
  return text.replace(/"weights":\{"data":\[([^\]]*)\]/g, (_, numbers: string) => {
    const divided = numbers.split(',').map((x) => Number(x) / sequences)
    return `"weights":{"data":[${divided.join(',')}]`
  })
})

/** Changes the numbers of every list of a name. */
const lists =
  (name: string, change: (numbers: readonly number[]) => readonly number[]) =>
  (text: string): string =>
    text.replaceAll(new RegExp(`"${name}":\\{"data":\\[([^\\]]*)\\]`, 'g'), (_, numbers: string) => {
      const changed = change(numbers.split(',').map(Number))
      return `"${name}":{"data":[${changed.join(',')}]`
    })

/** Divides weights by their sum, as SkyRL does. */
const normalized = (weights: readonly number[]): readonly number[] => {
  const sum = Math.max(
    weights.reduce((total, x) => total + x, 0),
    1e-9,
  )
  return weights.map((x) => x / sum)
}

/** Adds noise to log-probabilities of losses. */
const noisy = (): Change => {
  let count = 0
  return (text) => lists('logprobs', ([first, ...rest]) => [first! - 1e-3 * count++, ...rest])(text)
}

/** Answers 404 to all polls after the first that has a result. */
const forgetful = () => {
  let results = 0
  return (status: number, path: string): number =>
    path.endsWith('/retrieve_future') && status === 200 && ++results > 1 ? 404 : status
}

/** Takes away the numbers by which a server recognizes repeated requests. */
const unnumbered: Change = (text) => text.replace(/"seq_id":\d+,?/, '')

const BROKEN: readonly (readonly [check: string, broken: Broken])[] = [
  ['gradients over data', { request: averaged }],
  ['gradient clipping', { request: (text) => text.replace(/"grad_clip_norm":[^,}]+/, '"grad_clip_norm":0') }],
  [
    'weights of zero',
    { request: on('/forward_backward', (text) => text.replaceAll('[0,0,0,0,0,0,0]', '[1,1,1,1,1,1,1]')) },
  ],
  ['sizes of weights', { request: on('/forward_backward', lists('weights', normalized)) }],
  [
    'sizes of advantages',
    {
      request: on(
        '/forward_backward',
        lists('advantages', (all) => all.map(Math.abs)),
      ),
    },
  ],
  ['adapter scale', { request: (text) => text.replace(/"rank":\d+/, '"rank":8') }],
  ['equal requests', { answer: noisy() }],
  ['log-prob alignment', { answer: (text) => text.replace(/("sequences":.*?"logprobs":\[)[^,\]]+/, '$1-9') }],
  ['log-probs of a prompt', { answer: (text) => text.replace(/("prompt_logprobs":\[null,)[^,]+/, '$1-9') }],
  ['futures', { status: (status) => (status === 404 ? 200 : status) }],
  ['checkpoint with optimizer', { request: (text) => text.replace('"optimizer":true', '"optimizer":false') }],
  ['repeated gradients', { request: unnumbered, header: 'x-idempotency-key' }],
  ['repeated steps', { request: unnumbered, header: 'x-idempotency-key', verdict: 'failed' }],
  ['expiry of results', { status: forgetful() }],
  ['error shapes', { answer: (text) => text.replace('"detail"', '"other"') }],
  ['unknown loss', { request: (text) => text.replace('no_such_loss', 'cross_entropy') }],
]

describe('checkTinkerServer', () => {
  it('finds nothing on our own server', async () => {
    const found = await verdicts(undefined)
    expect(found).toHaveLength(24)
    expect(found.filter(({ verdict }) => verdict !== 'as expected')).toEqual([])
  }, 60_000)

  it.each(BROKEN)('finds a server that breaks %s', async (check, broken) => {
    expect(await verdicts([check], broken)).toMatchObject([{ check, verdict: broken.verdict ?? 'differs' }])
  })

  it('reports a server that refuses a call as failed', async () => {
    const refused: Change = (text) => text.replace('"loss_fn":"cross_entropy"', '"loss_fn":"absent"')
    expect(await verdicts(['weights of zero'], { request: refused })).toMatchObject([{ verdict: 'failed' }])
  })

  it('refuses a name that is not a check', async () => {
    await expect(verdicts(['no such check'])).rejects.toThrow(/no check 'no such check'/)
  })
})
