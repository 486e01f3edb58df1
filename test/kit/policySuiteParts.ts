/** What the cases of `policySuite` share: questions, what came back, and what must have come. */
import { type Key, keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import type { SamplingParams } from '@tandem-rl/text'
import { type Either, isRight } from 'fp-ts/lib/Either.js'
import { expect } from 'vitest'
import type { PolicyFailure } from '../../src/data/policy.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'
import type { PolicyWorld } from './policySuiteWorld.js'
import { oracleLogits } from './samplingOracle.js'

/**
 * An ability of a policy: `yes`; `refused`: it accepts the setting and then fails with a reason;
 * `absent`: no such setting or entry exists, so a program that uses it does not compile.
 */
export type Ability = 'yes' | 'refused' | 'absent'

/** Settings and results that not every policy has. */
export interface PolicyAbilities {
  /** Token ids of what was sampled. */
  readonly ids: Ability
  readonly logProbs: Ability
  /** Temperatures other than 0 and 1: `refused` if log-probabilities at them are unavailable. */
  readonly temperature: Ability
  readonly topK: Ability
  readonly topP: Ability
  readonly minP: Ability
  readonly penalties: Ability
  readonly logitBias: Ability
  readonly allowedTokens: Ability
  readonly minTokens: Ability
  readonly stopStrings: Ability
  readonly stopTokens: Ability
  /** Equal keys, equal answers. */
  readonly seeds: Ability
  /** Log-probabilities of given completions. */
  readonly scoring: Ability
  /**
   * Prompts that are longer than the context are refused; `absent` for a server that accepts them.
   */
  readonly contextLimit: 'yes' | 'absent'
  /** Cutting prompts that are too long. */
  readonly truncation: Ability
  /** A signal ends the work. */
  readonly cancel: Ability
  /** The weights that sampled. */
  readonly versions: Ability
}

/** The sampling options of a question. */
export interface SuiteSampling
  extends Partial<Omit<SamplingParams, 'n' | 'key' | 'maxTokens' | 'topLogProbs' | 'promptLogProbs' | 'logProbsMode'>> {
  readonly temperature: number
  readonly maxTokens: number
  /** Cut longer prompts to their last so many tokens. */
  readonly keepLast?: number
}

export interface SuiteAsk {
  /** One row each; neighbors that are equal may become one request. */
  readonly questions: readonly string[]
  readonly sampling: SuiteSampling
  readonly key: Key
  readonly signal?: AbortSignal
}

/** The response to one question. `null` if the policy does not report it. */
export interface SuiteRow {
  readonly ids: readonly number[] | null
  readonly logProbs: readonly number[] | null
  /** Without special tokens. */
  readonly text: string
  readonly stopReason: string
  readonly version: number | null
}

type SuiteAnswer = Either<PolicyFailure, readonly SuiteRow[]>

/** Something is wrong with the server or with how it is reached. */
export type SuiteFault = 'unknown model' | 'wrong key' | 'dead server'

/** A policy as the suite asks it. */
export interface PolicySubject {
  readonly world: PolicyWorld
  readonly ask: (ask: SuiteAsk) => Promise<SuiteAnswer>
  /** Log-probabilities of given completions; present where `scoring` is not `absent`. */
  readonly score?: (
    rows: readonly { readonly prompt: readonly number[]; readonly completion: readonly number[] }[],
    temperature: number,
  ) => Promise<Either<PolicyFailure, readonly (readonly number[])[]>>
  /** The tolerance for log-probabilities, compared with our scorer's, in nats. */
  readonly tolerance: number
  /** Tokens of prompt and completion together, at most. */
  readonly maxLength: number
  /** Version of the weights that sample. */
  readonly version: number
  /** Completions that are drawn for a check of a distribution. */
  readonly draws: number
  /** The treatment of a stop string. Default `cut`; some servers keep it. */
  readonly stopText?: 'cut' | 'kept'
  /**
   * Requests that the server works on now; absent for policies of this process, and where the
   * server does not tell.
   */
  readonly running?: () => Promise<number>
  /** The same policy where something is wrong. */
  readonly faulty?: Partial<Readonly<Record<SuiteFault, (ask: SuiteAsk) => Promise<SuiteAnswer>>>>
  /** A secret that no failure may show. */
  readonly secret?: string
  readonly close: () => Promise<void>
}

/** The subject of the running test. */
export type Subject = () => PolicySubject

export const KEY = keyFromSeed(11)

export const GREEDY: SuiteSampling = { temperature: 0, maxTokens: 10 }

/** Questions as the embedded model knows them. Any model can read them. */
export const QUESTIONS = [
  'Hi',
  'Sam sees birds',
  'A B C D E F',
  '7 7 7',
  'Tom has 3 apples and buys 4 more. How many apples does Tom have?',
] as const

export const QUESTION: string = QUESTIONS[0]

/** The rows of an answer that must be one. */
export const rowsOf = async (
  subject: PolicySubject,
  questions: readonly string[],
  { key = KEY, ...sampling }: SuiteSampling & { readonly key?: Key },
): Promise<readonly SuiteRow[]> => {
  const rows = requireRight(await subject.ask({ questions, sampling, key }))
  expect(rows, 'rows').toHaveLength(questions.length)
  return rows
}

/**
 * Checks that the policy refuses: a failure of kind `asked`, with a reason that adds to the kind.
 */
export const expectRefused = (answer: Either<PolicyFailure, unknown>): PolicyFailure => {
  if (isRight(answer)) throw new Error('expected a refusal, got an answer')
  expect(answer.left._tag).toBe('PolicyFailure')
  expect(answer.left.kind ?? 'asked', answer.left.reason).toBe('asked')
  expect(answer.left.reason.length, answer.left.reason).toBeGreaterThan(20)
  return answer.left
}

const counted = (ids: readonly number[]): ReadonlyMap<number, number> => {
  const counts = new Map<number, number>()
  for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1)
  return counts
}

/** The most probable tokens by our own model, and the smallest margin of one. */
interface GreedyPath {
  readonly ids: readonly number[]
  /** Nats. */
  readonly lead: number
}

/**
 * The most probable completion, with penalties and bias if there are any. The end token is its
 * last, if it comes.
 */
const greedyPath = (
  world: PolicyWorld,
  prompt: readonly number[],
  sampling: Pick<SuiteSampling, 'maxTokens'> & Partial<SamplingParams>,
): GreedyPath => {
  const params: SamplingParams = { ...DEFAULT_SAMPLING, ...sampling }
  const ids: number[] = []
  let lead = Number.POSITIVE_INFINITY
  while (ids.length < sampling.maxTokens && ids.at(-1) !== world.endToken) {
    const logits = oracleLogits(world.logits([...prompt, ...ids]), params, {
      promptCounts: counted(prompt),
      outputCounts: counted(ids),
      banned: ids.length < params.minTokens ? [world.endToken] : [],
    })
    const best = logits.indexOf(Math.max(...logits))
    const second = logits.reduce((most, x, id) => (id === best ? most : Math.max(most, x)), Number.NEGATIVE_INFINITY)
    lead = Math.min(lead, logits[best]! - second)
    ids.push(best)
  }
  return { ids, lead }
}

/** A lead that no rounding takes away. */
const CLEAR_LEAD = 0.01

/** Questions whose most probable answer is clear, each with that answer. At least one. */
export const clearAnswers = (
  { world }: PolicySubject,
  sampling: Pick<SuiteSampling, 'maxTokens'> & Partial<SamplingParams>,
): readonly { readonly question: string; readonly prompt: readonly number[]; readonly ids: readonly number[] }[] => {
  const all = QUESTIONS.map((question) => {
    const prompt = world.render(question)
    return { question, prompt, ...greedyPath(world, prompt, sampling) }
  })
  const clear = all.filter(({ lead }) => lead > CLEAR_LEAD)
  if (clear.length === 0) throw new Error('no question has a clear answer: ask others, or fewer tokens')
  return clear
}

/** Compares a row with ids: by ids if the policy reports them, else by text. */
export const expectSays = ({ world }: PolicySubject, row: SuiteRow, ids: readonly number[]): void => {
  if (row.ids !== null) expect(row.ids).toEqual(ids)
  else expect(row.text).toBe(world.decode(ids))
}

/** Checks the log-probabilities of a row, one for one, against our own. */
export const expectLogProbs = (
  { world, tolerance }: PolicySubject,
  prompt: readonly number[],
  row: SuiteRow,
  temperature: number,
): void => {
  const { ids, logProbs } = row
  if (ids === null || logProbs === null) throw new Error('a row without ids or log-probabilities')
  expect(logProbs).toHaveLength(ids.length)
  const expected = world.score(prompt, ids, temperature)
  for (const [t, logProb] of logProbs.entries()) {
    expect(logProb).toBeLessThanOrEqual(0)
    expect(Math.abs(logProb - expected[t]!), `token ${t}: ${logProb}, ours ${expected[t]}`).toBeLessThanOrEqual(
      tolerance,
    )
  }
}
