/** Converts answers of a server to events, after checking them against the request. */
import type { FinishReason, GeneratedToken, GenerationEvent, GenerationRequest, PromptLogProbs } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { knownModes, type ServerLogProbs } from '../../generation/policy/knownModes.js'
import { generatedToken, isLogProb, readPromptLogProbs } from './serverLogProbs.js'
import type { WeightSpan, WireAnswer, WirePart, WireToken } from './wireAnswer.js'

/** The values that an answer must agree with. */
export interface Expected {
  readonly request: GenerationRequest
  /** Model names that the answer may contain. */
  readonly models: readonly string[]
  readonly maxTokens: number
  /** Infinity if unknown. */
  readonly vocabularySize: number
  readonly logProbs: ServerLogProbs
  /** Version of the weights that were serving when the request was sent. */
  readonly version: number
  /**
   * Treatment of the server's weight labels. `integers`: integers are versions, other labels are
   * ignored. `required`: set once the server had one of our labels; its absence then means that the
   * weights are lost. `ignored`: the labels refer to other weights than those of the request.
   */
  readonly labels: 'integers' | 'required' | 'ignored'
}

/** A result, or the reason why an answer is invalid. */
type Checked<T> = E.Either<string, T>

interface Growing {
  readonly tokens: GeneratedToken[]
  finished: boolean
}

/**
 * Reads the answers of one request in order: one for a whole answer, several for a stream. Mutable;
 * lives as long as the request.
 */
export interface AnswerReader {
  /** Returns the events of the next answer. */
  readonly accept: (answer: WireAnswer) => Checked<readonly GenerationEvent[]>
  /** Returns the events of completions that the server did not finish explicitly. */
  readonly end: () => Checked<readonly GenerationEvent[]>
  /** Indices of unfinished completions. */
  readonly open: () => readonly number[]
  /** Returns the version in the last label, or null. */
  readonly label: () => number | null
}

const FINISH: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  abort: 'abort',
  error: 'error',
}

/** Returns the version in a label, or null if it is not one of ours. */
export const versionOf = (label: string): number | null => (/^\d{1,15}$/.test(label) ? Number(label) : null)

/** Returns true if the spans follow each other from the first token to the last. */
const isCover = (spans: readonly WeightSpan[], count: number): boolean =>
  spans.every(({ start, end }, i) => start === (i === 0 ? 0 : spans[i - 1]!.end) && end >= start) &&
  (spans.at(-1)?.end ?? 0) === count

/** Returns the version of each of `count` tokens, or null for tokens without a label. */
const stampsOf = (
  spans: readonly WeightSpan[],
  count: number,
  labels: Expected['labels'],
): Checked<readonly (number | null)[]> => {
  if (!isCover(spans, count)) {
    const reported = spans.map(({ start, end }) => `${start} to ${end}`).join(', ')
    return E.left(`its weight versions cover tokens ${reported || 'nowhere'}, and there are ${count}`)
  }
  const lost = spans.find(({ label }) => versionOf(label) === null)
  if (labels === 'required' && lost !== undefined) {
    return E.left(
      `the weights are labeled '${lost.label}', which no updater wrote: the server lost the weights that it was given, perhaps by a restart`,
    )
  }
  return E.right(spans.flatMap(({ label, start, end }) => Array(end - start).fill(versionOf(label))))
}

const tokenProblem = (tokens: readonly WireToken[], { vocabularySize }: Expected): string | null => {
  const outside = tokens.find(({ id }) => id >= vocabularySize)
  if (outside !== undefined) return `token ${outside.id} is not in the vocabulary of ${vocabularySize}`
  const wrong = tokens.find(({ logProb }) => !isLogProb(logProb))
  return wrong === undefined ? null : `token ${wrong.id} has the invalid log-probability ${wrong.logProb}`
}

const headProblem = ({ model, promptIds, usage }: WireAnswer, { request, models }: Expected): string | null => {
  if (model !== null && !models.includes(model)) return `it is from the model '${model}', not '${models[0]}'`
  const { prompt } = request
  if (promptIds !== null && !(promptIds.length === prompt.length && promptIds.every((id, t) => id === prompt[t]))) {
    return 'its prompt is not the one that was sent'
  }
  return usage !== null && usage.prompt !== prompt.length
    ? `it counts ${usage.prompt} tokens of a prompt of ${prompt.length}`
    : null
}

const promptOf = (answer: WireAnswer, { request }: Expected): Checked<PromptLogProbs | null> => {
  const wanted = request.sampling.promptLogProbs
  if (wanted === null) return E.right(null)
  if (answer.promptLogProbs === null) return E.left('it has no log-probabilities of the prompt')
  const read = readPromptLogProbs(answer.promptLogProbs, request.prompt, wanted)
  return typeof read === 'string' ? E.left(read) : E.right(read)
}

/**
 * Makes a reader for the answers to a request.
 *
 * Errors   `Left` with a message for an invalid answer: of another model or prompt; with ids
 *          outside the vocabulary, invalid log-probabilities or too many tokens; with completions
 *          that were not requested, finish twice or have an unknown finish reason; with versions
 *          that do not cover the tokens or contradict those of an earlier part of the stream. `end`
 *          returns `Left` if tokens may be missing.
 */
export const answerReader = (expected: Expected): AnswerReader => {
  const { request, maxTokens } = expected
  const { sampling } = request
  const modes = knownModes(expected.logProbs, sampling)
  const completions = Array.from({ length: sampling.n }, (): Growing => ({ tokens: [], finished: false }))
  let hasStarted = false
  let label: number | null = null
  let counted: number | null = null

  const total = (): number => completions.reduce((sum, { tokens }) => sum + tokens.length, 0)

  const partProblem = (part: WirePart): string | null => {
    const completion = completions[part.index]
    if (completion === undefined) return `it has a completion ${part.index}, and ${sampling.n} were requested`
    if (completion.finished) return `completion ${part.index} continues after its end`
    const count = completion.tokens.length + part.tokens.length
    if (count > maxTokens) return `completion ${part.index} has ${count} tokens, and ${maxTokens} were requested`
    if (part.finishReason !== null && !Object.hasOwn(FINISH, part.finishReason)) {
      return `completion ${part.index} ended for an unknown reason, '${part.finishReason}'`
    }
    return tokenProblem(part.tokens, expected)
  }

  /**
   * Returns the versions of a piece's tokens. Spans of a stream come last and must agree with
   * earlier versions.
   */
  const stamps = (part: WirePart, before: readonly GeneratedToken[]): Checked<readonly number[]> => {
    const sent = part.tokens.map(() => expected.version)
    const count = before.length + part.tokens.length
    if (part.spans === null || expected.labels === 'ignored') return E.right(sent)
    const reported = stampsOf(part.spans, count, expected.labels)
    if (E.isLeft(reported)) return reported
    label = reported.right.findLast((version) => version !== null) ?? label
    const changed = before.findIndex(({ version }, t) => (reported.right[t] ?? version) !== version)
    if (changed !== -1) {
      const versions = `${before[changed]!.version}, and then ${reported.right[changed]}`
      return E.left(
        `token ${changed} was reported with version ${versions}: whole answers carry the right versions, streams only while weights stay`,
      )
    }
    return E.right(sent.map((version, t) => reported.right[before.length + t] ?? version))
  }

  const finishedEvent = (part: WirePart): readonly GenerationEvent[] => {
    if (part.finishReason === null) return []
    completions[part.index]!.finished = true
    const finishReason = FINISH[part.finishReason]! // checked before
    const stopReason = finishReason === 'stop' ? part.stopReason : null
    return [{ _tag: 'Finished', index: part.index, finishReason, stopReason }]
  }

  const partEvents = (part: WirePart): Checked<readonly GenerationEvent[]> => {
    const problem = partProblem(part)
    if (problem !== null) return E.left(problem)
    const completion = completions[part.index]!
    const versions = stamps(part, completion.tokens)
    if (E.isLeft(versions)) return versions
    const tokens = part.tokens.map((token, t) =>
      generatedToken(token, modes, { topLogProbs: sampling.topLogProbs, version: versions.right[t]! }),
    )
    for (const token of tokens) completion.tokens.push(token)
    const isEmpty = tokens.length === 0 && part.text === ''
    return E.right([
      ...(isEmpty ? [] : [{ _tag: 'Tokens', index: part.index, tokens, text: part.text } as const]),
      ...finishedEvent(part),
    ])
  }

  const startedEvent = (answer: WireAnswer): Checked<readonly GenerationEvent[]> => {
    if (hasStarted) return E.right([])
    hasStarted = true
    return E.map((promptLogProbs: PromptLogProbs | null): readonly GenerationEvent[] => [
      { _tag: 'Started', cachedTokens: answer.usage?.cached ?? 0, promptLogProbs },
    ])(promptOf(answer, expected))
  }

  const accept = (answer: WireAnswer): Checked<readonly GenerationEvent[]> => {
    const problem = headProblem(answer, expected)
    if (problem !== null) return E.left(problem)
    const started = startedEvent(answer)
    if (E.isLeft(started)) return started
    const events = [...started.right]
    for (const part of answer.parts) {
      const read = partEvents(part)
      if (E.isLeft(read)) return read
      events.push(...read.right)
    }
    counted = answer.usage?.completion ?? counted
    return E.right(events)
  }

  const open = (): readonly number[] => completions.flatMap(({ finished }, i) => (finished ? [] : [i]))

  /**
   * Finishes the stream. vLLM may drop the last frame of a completion, with its finish reason, if
   * it has no token. The reason is then inferred if all tokens arrived.
   */
  const end = (): Checked<readonly GenerationEvent[]> => {
    if (counted !== null && counted !== total()) {
      return E.left(`it counts ${counted} tokens, and ${total()} arrived`)
    }
    const missing = open()
    if (missing.length === 0) return E.right([])
    if (counted === null) return E.left(`completion ${missing[0]} has no end`)
    const empty = missing.find((index) => completions[index]!.tokens.length === 0)
    if (empty !== undefined) return E.left(`completion ${empty} is missing`)
    return E.right(
      missing.map((index) => {
        completions[index]!.finished = true
        const isFull = completions[index]!.tokens.length === maxTokens
        return { _tag: 'Finished', index, finishReason: isFull ? 'length' : 'stop', stopReason: null }
      }),
    )
  }

  return { accept, end, open, label: () => label }
}
