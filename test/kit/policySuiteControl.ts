/** Cases of `policySuite`: ends of completions, limits, signals, failures, versions. */
import { requireRight } from '@tandem-rl/testing'
import { isLeft } from 'fp-ts/lib/Either.js'
import { expect, it } from 'vitest'
import {
  clearAnswers,
  expectRefused,
  expectSays,
  GREEDY,
  KEY,
  type PolicyAbilities,
  type PolicySubject,
  QUESTION,
  QUESTIONS,
  rowsOf,
  type Subject,
  type SuiteFault,
  type SuiteSampling,
} from './policySuiteParts.js'
import { given, refusesSampling } from './policySuiteSampling.js'

/** Completions that are drawn until one ends by itself. */
const ROUNDS = 12

const checkEndToken = async (subject: PolicySubject): Promise<void> => {
  const { world } = subject
  for (let round = 0; round < ROUNDS; round++) {
    const key = { ...KEY, low: KEY.low + round }
    const rows = await rowsOf(subject, Array<string>(8).fill(QUESTIONS[1 + (round % 3)]!), {
      temperature: 1,
      maxTokens: 48,
      key,
    })
    for (const { ids, stopReason, text } of rows) {
      expect(['stop', 'length']).toContain(stopReason)
      expect(text).not.toContain(world.text.endOfTurn)
      if (ids === null) continue
      expect(ids.indexOf(world.endToken)).toBe(stopReason === 'stop' ? ids.length - 1 : -1)
      if (stopReason === 'length') expect(ids).toHaveLength(48)
    }
    if (rows.some(({ stopReason }) => stopReason === 'stop')) return
  }
  throw new Error('no completion ended by itself')
}

/**
 * A completion whose most probable tokens are clear and do not end by themselves; at least three
 * different ones.
 */
const clearOpen = (subject: PolicySubject) => {
  const open = clearAnswers(subject, GREEDY).find(
    ({ ids }) => !ids.includes(subject.world.endToken) && new Set(ids).size > 1,
  )
  if (open === undefined) throw new Error('no clear answer is long enough')
  return open
}

/** Cases of ends: the end token, length, stop strings and stop tokens. */
export const endingCases = (subject: Subject, can: PolicyAbilities): void => {
  it('ends with the end token, which is one of the ids and not of the text', () => checkEndToken(subject()))

  it('ends at the limit of tokens, and reports it as the reason', async () => {
    const { question, ids } = clearOpen(subject())
    const [row] = await rowsOf(subject(), [question], { ...GREEDY, maxTokens: 4 })
    expectSays(subject(), row!, ids.slice(0, 4))
    expect(row!.stopReason).toBe('length')
  })

  given(can.stopStrings, ['ends at a stop string; ids are what was sampled', 'stop strings'], {
    holds: async () => {
      const { question, ids } = clearOpen(subject())
      const { world, stopText = 'cut' } = subject()
      const at = ids.findIndex((id, t) => t > 0 && ids.indexOf(id) === t)
      const stop = world.decode([ids[at]!])
      const [row] = await rowsOf(subject(), [question], { ...GREEDY, stop: ['\u0001', stop] })
      expect(row!.stopReason).toBe('stop')
      const whole = world.decode(ids)
      const end = whole.indexOf(stop) + (stopText === 'kept' ? stop.length : 0)
      if (row!.ids === null) expect(row!.text).toBe(whole.slice(0, end))
      else {
        expect(row!.ids).toEqual(ids.slice(0, row!.ids.length))
        expect(row!.ids.length).toBeLessThan(ids.length)
        expect(world.decode(row!.ids)).toContain(stop)
      }
    },
    refuses: refusesSampling(subject, { stop: ['x'] }),
  })

  given(can.stopTokens, ['ends at a stop token, which is the last id', 'stop tokens'], {
    holds: async () => {
      const { question, ids } = clearOpen(subject())
      const at = ids.findIndex((id, t) => t > 0 && ids.indexOf(id) === t)
      const [row] = await rowsOf(subject(), [question], { ...GREEDY, stopTokens: [ids[at]!] })
      expect(row!.stopReason).toBe('stop')
      expect(row!.ids).toEqual(ids.slice(0, at + 1))
    },
    refuses: refusesSampling(subject, { stopTokens: [65] }),
  })

  given(can.minTokens, ['does not end below the minimum of tokens', 'a minimum of tokens'], {
    holds: async () => {
      const sampling: SuiteSampling = { temperature: 1, maxTokens: 24, minTokens: 24 }
      const rows = await rowsOf(subject(), Array<string>(8).fill(QUESTION), sampling)
      for (const { ids, stopReason } of rows) {
        expect(stopReason).toBe('length')
        if (ids !== null) expect(ids).toHaveLength(24)
      }
    },
    refuses: refusesSampling(subject, { minTokens: 3 }),
  })
}

/** A question of more tokens than the model holds. */
const tooLong = ({ maxLength }: PolicySubject): string => 'apples and books. '.repeat(maxLength)

/** Cases of prompts that are too long. */
export const lengthCases = (subject: Subject, can: PolicyAbilities): void => {
  const refused = 'refuses a prompt that is longer than the context with a number, and answers the next one'
  given(can.contextLimit, [refused, 'long prompts'], {
    holds: async () => {
      const sampling = { temperature: 1, maxTokens: 4 }
      const failure = expectRefused(await subject().ask({ questions: [tooLong(subject())], sampling, key: KEY }))
      expect(failure.reason).toMatch(/\d/)
      await rowsOf(subject(), [QUESTION], { temperature: 1, maxTokens: 2 })
    },
    refuses: async () => expect.unreachable('a limit is there or not'),
  })

  given(can.truncation, ['cuts a long prompt to its end where it is told to', 'cutting prompts'], {
    holds: async () => {
      const { world } = subject()
      const rest = (ids: readonly number[]): readonly number[] => ids.slice(-20)
      const [clear] = clearAnswers({ ...subject(), world: { ...world, render: (q) => rest(world.render(q)) } }, GREEDY)
      const [row] = await rowsOf(subject(), [clear!.question], { ...GREEDY, keepLast: 20 })
      expectSays(subject(), row!, clear!.ids)
    },
    refuses: refusesSampling(subject, { keepLast: 20 }),
  })
}

const until = async (holds: () => Promise<boolean>): Promise<void> => {
  while (!(await holds())) await new Promise((go) => setTimeout(go, 5))
}

/** Long enough to be running when the signal comes: its most probable answer does not end soon. */
const endless = (subject: PolicySubject): { readonly question: string; readonly sampling: SuiteSampling } => {
  const long = clearAnswers(subject, { maxTokens: 24 }).find(({ ids }) => !ids.includes(subject.world.endToken))
  if (long === undefined) throw new Error('every clear answer ends soon')
  const maxTokens = Math.min(900, subject.maxLength - long.prompt.length - 1)
  return { question: long.question, sampling: { temperature: 0, maxTokens } }
}

/** The number of retries of a request whose response was lost. */
const TRIES = 5

/** A request that is running, where the server tells that, and the signal to end it. */
const runningAsk = async (
  subject: PolicySubject,
): Promise<{ readonly asked: ReturnType<PolicySubject['ask']>; readonly stop: AbortController }> => {
  const { running, ask } = subject
  const { question, sampling } = endless(subject)
  for (let i = 0; i < TRIES; i++) {
    const stop = new AbortController()
    const asked = ask({ questions: [question], sampling, key: KEY, signal: stop.signal })
    let isOver = false
    const early = asked.then(requireRight).then(() => {
      isOver = true
    })
    early.catch(() => {}) // of a request that was cancelled
    if (running === undefined) return { asked, stop }
    await Promise.race([early, until(async () => isOver || (await running()) > 0)])
    if (!isOver) return { asked, stop }
  }
  throw new Error('each request was answered before the signal came')
}

/** Cases of signals. */
export const signalCases = (subject: Subject): void => {
  it('a signal ends the work, here and on the server, and the next request is served', async () => {
    const { running } = subject()
    const { asked, stop } = await runningAsk(subject())
    stop.abort()
    const answer = await asked
    expect(isLeft(answer) ? answer.left.kind : 'answered').toBe('cancelled')
    if (running !== undefined) await until(async () => (await running()) === 0)
    await rowsOf(subject(), [QUESTION], { temperature: 1, maxTokens: 2 })
  })

  it('a signal that was aborted before starts nothing', async () => {
    const sampling = { temperature: 1, maxTokens: 4 }
    const answer = await subject().ask({ questions: [QUESTION], sampling, key: KEY, signal: AbortSignal.abort() })
    expect(isLeft(answer) ? answer.left.kind : 'answered').toBe('cancelled')
  })
}

/** The failure tag of each fault. */
const KIND_OF_FAULT: Readonly<Record<SuiteFault, readonly (string | undefined)[]>> = {
  'unknown model': ['asked', 'infrastructure', undefined],
  'wrong key': ['asked', 'infrastructure', undefined],
  'dead server': ['infrastructure'],
}

/** Cases of failures. */
export const failureCases = (subject: Subject, faults: readonly SuiteFault[]): void => {
  for (const fault of faults) {
    it(`${fault}: a failure that names the fault, without a secret or a row`, async () => {
      const ask = subject().faulty?.[fault]
      if (ask === undefined) throw new Error(`the subject has no policy with ${fault}`)
      const answer = await ask({ questions: [QUESTION], sampling: { temperature: 1, maxTokens: 4 }, key: KEY })
      if (!isLeft(answer)) throw new Error('expected a failure')
      expect(KIND_OF_FAULT[fault], answer.left.reason).toContain(answer.left.kind)
      expect(answer.left.reason.length).toBeGreaterThan(20)
      const { secret } = subject()
      if (secret !== undefined) expect(JSON.stringify(answer.left)).not.toContain(secret)
    })
  }

  it('refuses parameters that cannot be, and names them', async () => {
    const sampling = { temperature: -1, maxTokens: 4 }
    const { reason } = expectRefused(await subject().ask({ questions: [QUESTION], sampling, key: KEY }))
    expect(reason).toContain('temperature')
  })
}

/** Cases of versions. */
export const versionCases = (subject: Subject, can: PolicyAbilities): void => {
  if (can.versions === 'yes') {
    it('stamps each row with the version of the weights that sampled it', async () => {
      const rows = await rowsOf(subject(), [QUESTION, QUESTIONS[1]], { temperature: 1, maxTokens: 3 })
      for (const { version } of rows) expect(version).toBe(subject().version)
    })
  } else {
    it('gives no version, instead of a guess', async () => {
      const [row] = await rowsOf(subject(), [QUESTION], { temperature: 1, maxTokens: 3 })
      expect(row!.version).toBeNull()
    })
  }
}
