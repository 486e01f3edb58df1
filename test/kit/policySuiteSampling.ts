/** Cases of `policySuite`: what is drawn, and what is said about it. */
import { child } from '@tandem-rl/base'
import type { SamplingParams } from '@tandem-rl/text'
import { expect, it } from 'vitest'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'
import {
  type Ability,
  clearAnswers,
  expectLogProbs,
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
  type SuiteRow,
  type SuiteSampling,
} from './policySuiteParts.js'
import { oracleDistribution } from './samplingOracle.js'

/**
 * A case of an ability: `holds` where the policy has it; where it refuses, that it says so; none
 * where no program can ask for it.
 */
export const given = (
  ability: Ability,
  [title, what]: readonly [title: string, what: string],
  cases: { readonly holds: () => Promise<void>; readonly refuses: () => Promise<unknown> },
): void => {
  if (ability === 'yes') it(title, cases.holds)
  if (ability === 'refused') it(`says that it cannot: ${what}`, async () => void (await cases.refuses()))
}

/** What a policy says that is asked with settings that it must refuse. */
export const refusesSampling = (subject: Subject, sampling: Partial<SuiteSampling>) => async (): Promise<unknown> =>
  expectRefused(
    await subject().ask({ questions: [QUESTION], key: KEY, sampling: { temperature: 1, maxTokens: 4, ...sampling } }),
  )

/**
 * A text as all servers tell it: some leave out spaces at its ends, or write nothing where it ends
 * inside a character.
 */
const plain = (text: string): string => text.replaceAll('\ufffd', '').trim()

/** A first token as the policy tells it: its id, or else its text. */
const firstOf = ({ world }: PolicySubject, id: number, told: 'ids' | 'text'): string =>
  told === 'ids' ? String(id) : plain(world.decode([id]))

const toldBy = ({ ids }: SuiteRow): 'ids' | 'text' => (ids === null ? 'text' : 'ids')

/**
 * Largest value that a sum of squares with so many degrees of freedom has in all but one of 10,000
 * cases (Wilson and Hilferty).
 */
const chiSquareLimit = (freedom: number): number =>
  freedom * (1 - 2 / (9 * freedom) + 3.72 * Math.sqrt(2 / (9 * freedom))) ** 3

/** Outcomes that are counted together. */
interface Bin {
  readonly expected: number
  readonly got: number
}

/** Expected draws of a bin, at least. */
const LEAST = 5

const together = (a: Bin, b: Bin): Bin => ({ expected: a.expected + b.expected, got: a.got + b.got })

/** Outcomes, the likely ones first, put together until enough draws of them are expected. */
const binsOf = (outcomes: readonly Bin[]): readonly Bin[] => {
  const bins: Bin[] = []
  for (const outcome of outcomes.toSorted((a, b) => b.expected - a.expected)) {
    const last = bins.at(-1)
    if (last === undefined || last.expected >= LEAST) bins.push(outcome)
    else bins[bins.length - 1] = together(last, outcome)
  }
  if (bins.length > 1 && bins.at(-1)!.expected < LEAST) bins.splice(-2, 2, together(bins.at(-2)!, bins.at(-1)!))
  return bins
}

/**
 * Draws first tokens and compares how often each came with what it should be; none may come that
 * has no chance.
 */
const checkDistribution = async (subject: PolicySubject, sampling: Partial<SuiteSampling>): Promise<void> => {
  const { world, draws } = subject
  const asked: SuiteSampling = { temperature: 1, ...sampling, maxTokens: 1 }
  const rows = await rowsOf(subject, Array<string>(draws).fill(QUESTION), asked)
  const told = toldBy(rows[0]!)
  const chances = new Map<string, number>()
  const params: SamplingParams = { ...DEFAULT_SAMPLING, ...asked }
  const none = { promptCounts: new Map(), outputCounts: new Map(), banned: [] }
  for (const [id, chance] of oracleDistribution(world.logits(world.render(QUESTION)), params, none).entries()) {
    if (chance > 0) chances.set(firstOf(subject, id, told), (chances.get(firstOf(subject, id, told)) ?? 0) + chance)
  }
  const counts = new Map<string, number>()
  for (const { ids, text } of rows) {
    const first = ids === null ? plain(text) : String(ids[0])
    expect(chances.has(first), `'${first}' has no chance`).toBe(true)
    counts.set(first, (counts.get(first) ?? 0) + 1)
  }
  const bins = binsOf(
    [...chances].map(([first, chance]) => ({ expected: chance * draws, got: counts.get(first) ?? 0 })),
  )
  expect(bins.length, 'outcomes that can be told apart').toBeGreaterThan(1)
  const sum = bins.reduce((total, { expected, got }) => total + (got - expected) ** 2 / expected, 0)
  expect(sum, JSON.stringify(bins)).toBeLessThan(chiSquareLimit(bins.length - 1))
}

/** Cases of drawing: temperatures, cuts, penalties, keys. */
export const samplingCases = (subject: Subject, can: PolicyAbilities): void => {
  it('takes the most probable token at each step at temperature 0, whatever the key', async () => {
    const clear = clearAnswers(subject(), GREEDY)
    for (const label of [0, 1]) {
      const rows = await rowsOf(
        subject(),
        clear.map(({ question }) => question),
        { ...GREEDY, key: child(KEY, label) },
      )
      for (const [i, { ids }] of clear.entries()) expectSays(subject(), rows[i]!, ids)
    }
  })

  it('draws tokens as often as the model says at temperature 1', () => checkDistribution(subject(), {}))

  given(can.temperature, ['draws tokens as often as the model says at temperature 0.6', 'temperature 0.6'], {
    holds: () => checkDistribution(subject(), { temperature: 0.6 }),
    refuses: refusesSampling(subject, { temperature: 0.6 }),
  })

  const cuts = { topK: 5, topP: 0.5, minP: 0.2 } as const
  for (const [name, ability] of [
    ['topK', can.topK],
    ['topP', can.topP],
    ['minP', can.minP],
  ] as const) {
    const sampling = { [name]: cuts[name] }
    given(ability, [`draws only what ${name} ${cuts[name]} leaves, as often as it says`, name], {
      holds: () => checkDistribution(subject(), sampling),
      refuses: refusesSampling(subject, sampling),
    })
  }

  const penalties = {
    temperature: 0,
    maxTokens: 10,
    presencePenalty: 0.7,
    frequencyPenalty: 0.9,
    repetitionPenalty: 1.4,
  }
  given(can.penalties, ['takes tokens less often that were there before', 'penalties'], {
    holds: async () => {
      const [clear] = clearAnswers(subject(), penalties)
      const [row] = await rowsOf(subject(), [clear!.question], penalties)
      expectSays(subject(), row!, clear!.ids)
    },
    refuses: refusesSampling(subject, penalties),
  })

  // No whole number: `transformers serve` fails with one.
  const bias = { logitBias: new Map([[65, 99.5]]) }
  given(can.logitBias, ['adds a bias to a token', 'a bias'], {
    holds: async () => {
      const [row] = await rowsOf(subject(), [QUESTION], { ...GREEDY, maxTokens: 3, ...bias })
      expectSays(subject(), row!, [65, 65, 65])
    },
    refuses: refusesSampling(subject, bias),
  })

  const allowed = { allowedTokens: [70, 71] }
  given(can.allowedTokens, ['draws only allowed tokens', 'allowed tokens'], {
    holds: async () => {
      const rows = await rowsOf(subject(), Array<string>(8).fill(QUESTION), {
        temperature: 1,
        maxTokens: 4,
        ...allowed,
      })
      const told = toldBy(rows[0]!)
      const names = allowed.allowedTokens.map((id) => firstOf(subject(), id, told))
      for (const { ids, text } of rows) {
        if (ids !== null) for (const id of ids) expect(allowed.allowedTokens).toContain(id)
        else expect(names.reduce((left, name) => left.replaceAll(name, ''), text)).toBe('')
      }
    },
    refuses: refusesSampling(subject, allowed),
  })
}

/** Cases of one request with several completions, and of keys. */
export const groupCases = (subject: Subject, can: PolicyAbilities): void => {
  const drawn: SuiteSampling = { temperature: 1, maxTokens: 12 }
  const said = ({ ids, text }: SuiteRow): string => ids?.join() ?? text

  it('completes equal questions differently, and each question in its place', async () => {
    const rows = await rowsOf(subject(), Array<string>(6).fill(QUESTION), drawn)
    expect(new Set(rows.map(said)).size).toBeGreaterThan(3)
    const clear = clearAnswers(subject(), GREEDY)
    const asked = clear.flatMap(({ question }) => [question, question])
    const ordered = await rowsOf(subject(), asked, GREEDY)
    for (const [i, row] of ordered.entries()) expectSays(subject(), row, clear[Math.floor(i / 2)]!.ids)
  })

  if (can.seeds === 'yes') {
    it('answers the same for the same key', async () => {
      const questions = [QUESTION, QUESTION, QUESTIONS[1]]
      const first = await rowsOf(subject(), questions, drawn)
      expect((await rowsOf(subject(), questions, drawn)).map(said)).toEqual(first.map(said))
    })
  }

  it('answers otherwise for other keys', async () => {
    const asked = [QUESTION, QUESTIONS[1], QUESTIONS[2]]
    const answers = await Promise.all(
      [0, 1].map((label) => rowsOf(subject(), asked, { ...drawn, key: child(KEY, label) })),
    )
    expect(answers[0]!.map(said)).not.toEqual(answers[1]!.map(said))
  })
}

/** Cases of log-probabilities: of what was sampled, and of what is given. */
export const logProbCases = (subject: Subject, can: PolicyAbilities): void => {
  const checkRows = async (sampling: SuiteSampling): Promise<void> => {
    const asked = QUESTIONS.flatMap((question) => [question, question])
    const rows = await rowsOf(subject(), asked, sampling)
    for (const [i, row] of rows.entries()) {
      expectLogProbs(subject(), subject().world.render(asked[i]!), row, sampling.temperature)
    }
  }

  if (can.logProbs !== 'yes') {
    it('gives no log-probabilities, instead of invented ones', async () => {
      const [row] = await rowsOf(subject(), [QUESTION], { temperature: 1, maxTokens: 4 })
      expect(row!.logProbs).toBeNull()
    })
  } else {
    it('reports the log-probability of our scorer for each sampled id', () =>
      checkRows({ temperature: 1, maxTokens: 16 }))

    if (can.temperature === 'yes') {
      it('reports log-probabilities at the sampling temperature', () => checkRows({ temperature: 0.7, maxTokens: 16 }))
    }
    if (can.topK === 'yes') {
      it('reports log-probabilities from before the cuts', () => checkRows({ temperature: 1, maxTokens: 8, topK: 4 }))
    }
  }

  if (can.ids !== 'yes') {
    it('gives no token ids, instead of ids of its own', async () => {
      const [row] = await rowsOf(subject(), [QUESTION], { temperature: 1, maxTokens: 4 })
      expect(row!.ids).toBeNull()
    })
  }

  given(can.scoring, ['scores given completions as our scorer does', 'scoring'], {
    holds: async () => {
      const { world, score, tolerance } = subject()
      const rows = QUESTIONS.map((question, i) => {
        const prompt = world.render(question)
        return { prompt, completion: [65 + i, 70, world.endToken].slice(0, 1 + (i % 3)) }
      })
      const scores = await score!(rows, 1)
      if (scores._tag === 'Left') throw new Error(scores.left.reason)
      for (const [i, { prompt, completion }] of rows.entries()) {
        const expected = world.score(prompt, completion, 1)
        expect(scores.right[i]).toHaveLength(completion.length)
        for (const [t, x] of scores.right[i]!.entries()) {
          expect(Math.abs(x - expected[t]!), `row ${i}, token ${t}`).toBeLessThanOrEqual(tolerance)
        }
      }
    },
    refuses: async () =>
      expectRefused(await subject().score!([{ prompt: subject().world.render(QUESTION), completion: [65] }], 1)),
  })
}
