import { checkOptions } from '@tandem-rl/base'
import type { TokenSpan } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LogProbModel, TokenAction, TokenPrompt } from '../../data/policy.js'
import { raggedSpec, type Spec } from '../../data/spec.js'
import { type Ragged, ragged, raggedRow, raggedRows, rowLengths } from '../../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { maskOfSpans } from '../../data/tokenMasks.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import { RETRIEVE_LOG_PROB_OPTIONS } from '../optionKinds.js'
import {
  type PromptOf,
  promptSpec,
  readIds,
  type ScoredIds,
  type ScoreInput,
  TOKENS_INPUT,
  type TokensInput,
} from './scoreInput.js'
import { type StepContext, type Transform, transform } from './transform.js'

/** Log-probabilities in nats. */
export type LogProbRows<I extends ScoreInput> = {
  /** One for each token of the completion. */
  readonly response: Ragged<'float32'>
} & (I extends { readonly _tag: 'conversation' }
  ? {
      /**
       * One for each token of the prompt and the completion: `full[t]` is that of token t. NaN for
       * tokens that were not sampled.
       */
      readonly full: Ragged<'float32'>
    }
  : unknown)

/** The entry that scoring adds. */
export type LogProbEntries<K extends string, I extends ScoreInput> = {
  readonly [P in K]: TensorDict<LogProbRows<I>>
}

export interface RetrieveLogProbOptions<K extends string = string, I extends ScoreInput = ScoreInput> {
  readonly model: LogProbModel
  /** The name of the entry. Default refLogProbs. */
  readonly as?: K
  /** Default tokens. */
  readonly input?: I
  /** The temperature at which completions were sampled. Default: as recorded in each action. */
  readonly temperature?: number
}

const NAME = 'RetrieveLogProb'

type Result<T> = TE.TaskEither<EnvFailure, T>

/** The input and temperature of a model call. */
export interface Scoring<I extends ScoreInput> {
  readonly input: I
  readonly temperature: number | undefined
}

/** Adds the defaults. Throws RangeError for an invalid temperature. */
export const scoringOf = <I extends ScoreInput>(
  name: string,
  { input, temperature }: Pick<RetrieveLogProbOptions<string, I>, 'input' | 'temperature'>,
): Scoring<I> => {
  if (temperature !== undefined && !(temperature > 0 && Number.isFinite(temperature))) {
    throw new RangeError(`${name}: temperature must be above 0, got ${temperature}`)
  }
  return { input: input ?? (TOKENS_INPUT as I), temperature } // I is that of tokens where nothing is said
}

export const logProbSpec = ({ _tag }: ScoreInput): Spec => ({
  response: raggedSpec('float32'),
  ...(_tag === 'conversation' && { full: raggedSpec('float32') }),
})

/** Returns the empty entry of a state before the first step. */
export const noLogProbs = <I extends ScoreInput>(
  { batchShape: [size = 0] }: TensorDict,
  { _tag }: I,
): TensorDict<LogProbRows<I>> => {
  const none = ragged(
    'float32',
    Array.from({ length: size }, () => []),
  )
  const entries = { response: none, ...(_tag === 'conversation' && { full: none }) }
  return TensorDict(entries, [size]) as unknown as TensorDict<LogProbRows<I>> // with `full` if I requires it
}

/** Returns the temperature of each row. Greedy samples are scored at 1, as policies report them. */
const temperaturesOf = (
  name: string,
  action: TensorDict,
  given: number | undefined,
): E.Either<EnvFailure, readonly number[]> => {
  const size = action.batchShape[0] ?? 0
  if (given !== undefined) return E.right(Array.from({ length: size }, () => given))
  if (find(action, ['sampling']) === undefined) {
    const reason = 'the action does not say at which temperature it was sampled (no sampling): tell it by `temperature`'
    return E.left(envFailure(name, reason))
  }
  const sampling = get(action as TensorDict<TokenAction>, 'sampling').items // checked: it has it
  return E.right(sampling.toArray().map(({ temperature }) => (temperature === 0 ? 1 : temperature)))
}

const rowsOf = (rows: Ragged<'int32'>, places: readonly number[]): Ragged<'int32'> =>
  ragged(
    'int32',
    places.map((i) => raggedRow(rows, i)),
  )

/** Scores rows that share a temperature. */
const scoreAt = (
  name: string,
  model: LogProbModel,
  ids: ScoredIds,
  temperature: number,
): Result<readonly (readonly number[])[]> =>
  pipe(
    model.score(ids.prompts, ids.completions, temperature),
    TE.mapLeft((failure) => envFailure(name, `${model.name} failed: ${failure.reason}`, failure)),
    TE.filterOrElse(
      (scores) => rowLengths(scores).join() === rowLengths(ids.completions).join(),
      (scores) =>
        envFailure(
          name,
          `${model.name} answered with rows of [${rowLengths(scores).join(', ')}] tokens for completions of [${rowLengths(ids.completions).join(', ')}]`,
        ),
    ),
    TE.map(raggedRows),
  )

/** Scores all rows, with one call for each temperature. */
const scoreRows = (
  name: string,
  model: LogProbModel,
  { ids, temperatures }: { readonly ids: ScoredIds; readonly temperatures: readonly number[] },
): Result<readonly (readonly number[])[]> => {
  const different = [...new Set(temperatures)]
  if (different.length <= 1) return scoreAt(name, model, ids, different[0] ?? 1)
  const parts = different.map((temperature) => {
    const places = temperatures.flatMap((each, i) => (each === temperature ? [i] : []))
    const part = { prompts: rowsOf(ids.prompts, places), completions: rowsOf(ids.completions, places) }
    return pipe(
      scoreAt(name, model, part, temperature),
      TE.map((rows) => rows.map((row, j) => [places[j]!, row] as const)),
    )
  })
  return pipe(
    TE.sequenceSeqArray(parts),
    TE.map((scored) => {
      const byPlace = new Map(scored.flat())
      return temperatures.map((_, i) => byPlace.get(i)!) // every row has a temperature
    }),
  )
}

/**
 * The input of the model, and a function that places its numbers: undefined for tokens that were
 * not sampled.
 */
interface Wanted {
  readonly ids: ScoredIds
  readonly lay: (scores: readonly number[], i: number) => readonly (number | undefined)[]
}

/** Splits conversations in two: the part before the first sampled token, and the rest. */
const wholeConversations = (ids: ScoredIds, spans: readonly (readonly TokenSpan[])[]): Wanted => {
  const rows = raggedRows(ids.prompts).map((prompt, i) => {
    const full = [...prompt, ...raggedRow(ids.completions, i)]
    const before = maskOfSpans(spans[i]!, prompt.length)
    const isSampled = full.map((_, t) => t >= prompt.length || before[t] === 1)
    const first = isSampled.indexOf(true)
    return { full, isSampled, start: first < 0 ? full.length : first }
  })
  const part = (f: (row: (typeof rows)[number]) => readonly number[]): Ragged<'int32'> => ragged('int32', rows.map(f))
  return {
    ids: {
      prompts: part(({ full, start }) => full.slice(0, start)),
      completions: part(({ full, start }) => full.slice(start)),
    },
    lay: (scores, i) => rows[i]!.isSampled.map((isOwn, t) => (isOwn ? scores[t - rows[i]!.start] : undefined)),
  }
}

/** Returns `Left` with the first sampled token that has no finite number. */
const checkKnown = (
  name: string,
  model: LogProbModel,
  rows: readonly (readonly (number | undefined)[])[],
): E.Either<EnvFailure, typeof rows> => {
  const isMissing = (x: number | undefined): boolean => x !== undefined && !Number.isFinite(x)
  const row = rows.findIndex((each) => each.some(isMissing))
  if (row < 0) return E.right(rows)
  const token = rows[row]!.findIndex(isMissing)
  const reason = `${model.name} has no log-probability of token ${token} of row ${row}: it answered ${rows[row]![token]}`
  return E.left(envFailure(name, reason))
}

/**
 * Returns the log-probabilities of a step's completions under a model. Internal to this folder.
 *
 * Errors   `Left(EnvFailure)` as in `RetrieveLogProb`.
 */
export const retrieveLogProbs = <I extends ScoreInput>(
  name: string,
  { model, input, temperature }: Scoring<I> & { readonly model: LogProbModel },
  { previous, action }: StepContext,
): Result<TensorDict<LogProbRows<I>>> => {
  const ids = readIds(name, input, { previous, action })
  if (E.isLeft(ids)) return TE.left(ids.left)
  const temperatures = temperaturesOf(name, action, temperature)
  if (E.isLeft(temperatures)) return TE.left(temperatures.left)
  const spans = (): readonly (readonly TokenSpan[])[] =>
    get(previous as TensorDict<TokenPrompt>, 'tokens', 'spans').items.toArray() // needed of the state
  const request: Wanted =
    input._tag === 'conversation' ? wholeConversations(ids.right, spans()) : { ids: ids.right, lay: (scores) => scores }
  const lengths = rowLengths(ids.right.completions)
  const float = (rows: readonly (readonly (number | undefined)[])[]): Ragged<'float32'> =>
    ragged(
      'float32',
      rows.map((row) => row.map((x) => x ?? Number.NaN)),
    )
  return pipe(
    scoreRows(name, model, { ids: request.ids, temperatures: temperatures.right }),
    TE.chainEitherK((scored) => checkKnown(name, model, scored.map(request.lay))),
    TE.map((rows) => {
      const response = float(rows.map((row, i) => row.slice(row.length - lengths[i]!)))
      const entries = { response, ...(input._tag === 'conversation' && { full: float(rows) }) }
      return TensorDict(entries, action.batchShape) as unknown as TensorDict<LogProbRows<I>> // with `full` if I requires it
    }),
  )
}

/**
 * Adds an entry with the log-probabilities of the policy's tokens under a model.
 *
 * Only sampled tokens get a number: the log-probability of a token from a template, a tool or a
 * user has no meaning for a loss. A missing number is a failure of the step, never 0.
 *
 * Shapes   `[as].response` is as long as the completion, `[as].full` as prompt and completion.
 * Units    nats, at the temperature of sampling.
 * Errors   `Left(EnvFailure)` if the action lacks the view that `input` names or its temperature,
 *          if a text does not encode to the existing ids, or if the model fails, returns other
 *          lengths, or returns no finite number for a sampled token. Throws RangeError unless the
 *          temperature is above 0.
 * Cost     one call of the model for each temperature in the batch.
 * Source   TorchRL `RetrieveLogProb`. Its `assistant_only=False`, which scores tokens that were not
 *          sampled, has no equivalent; with `assistant_only=True` it writes 0 where `full` has NaN.
 *
 * @example
 * RetrieveLogProb({ model: { name: 'none', score: (_, rows) => TE.right(filledRows(rows, 'float32', -1)) } }).name // 'RetrieveLogProb'
 */
export const RetrieveLogProb = <const K extends string = 'refLogProbs', I extends ScoreInput = TokensInput>(
  options: RetrieveLogProbOptions<K, I>,
): Transform<null, PromptOf<I>, LogProbEntries<K, I>> => {
  checkOptions('RetrieveLogProb', options, RETRIEVE_LOG_PROB_OPTIONS)
  const { model, as = 'refLogProbs' } = options
  const scoring = scoringOf(NAME, options)
  const named = (rows: TensorDict): TensorDict<LogProbEntries<K, I>> =>
    TensorDict({ [as]: rows }, rows.batchShape) as unknown as TensorDict<LogProbEntries<K, I>> // the entry is named by K, its rows follow I
  return transform<null, PromptOf<I>, LogProbEntries<K, I>>({
    name: NAME,
    initial: null,
    needs: { observation: promptSpec(scoring.input), action: {} },
    adds: { [as]: logProbSpec(scoring.input) },
    reset: (td) => TE.right([named(noLogProbs(td, scoring.input)), null]),
    step: (_, context) =>
      pipe(
        retrieveLogProbs(NAME, { ...scoring, model }, context),
        TE.map((rows) => [named(rows), null] as const),
      ),
  })
}
