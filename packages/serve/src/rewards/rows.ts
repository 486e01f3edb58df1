/** The completions of a request, with the tasks that they answer. */
import { indexOfText, parseJson, roundedNumber, type ThreadPort } from '@tandem-rl/base'
import { boundedList, type Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { answerBodies, type BodyThread, bodyThread, readValue } from '../bodies/bodyThread.js'
import { type ApiFailure, apiFailure } from '../requests/failure.js'
import { REQUEST_LIMITS } from '../requests/limits.js'

const sentText = z.string().max(REQUEST_LIMITS.scoredText)

const requestSchema = (maxRows: number) =>
  z.object({
    query: boundedList(sentText, maxRows),
    prompts: boundedList(sentText, maxRows),
    labels: boundedList(z.union([sentText, z.number(), z.null()]), maxRows),
  })

/** A completion with the task that it answers. */
export interface ScoredRow {
  readonly task: Task
  readonly completion: string
}

/** Tokens that end a completion. OpenRLHF decodes them with the text. */
const END_TOKENS = ['<|im_end|>', '<|endoftext|>', '<|eot_id|>', '<|end_of_text|>', '<end_of_turn>', '</s>', '<eos>']

const withoutEnd = (text: string): string => {
  let rest = text.trimEnd()
  for (;;) {
    const end = END_TOKENS.find((token) => rest.endsWith(token))
    if (end === undefined) return rest
    rest = rest.slice(0, -end.length).trimEnd()
  }
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const NOT_SAFE = 'is not a safe integer: write it as a string'

/**
 * Reads the fields of a task from a label: those of a JSON object, or its text as the answer. A
 * number that would be another one is a problem.
 */
const fieldsOf = (label: string | number | null): E.Either<string, Readonly<Record<string, unknown>>> => {
  if (typeof label === 'number' && Number.isInteger(label) && !Number.isSafeInteger(label)) return E.left(NOT_SAFE)
  const text = String(label ?? '')
  const json = text.trimStart().startsWith('{') ? parseJson(text) : E.left('no object')
  if (E.isLeft(json) || !isRecord(json.right)) return E.right({ answer: text })
  const rounded = roundedNumber(text)
  return rounded === undefined ? E.right(json.right) : E.left(rounded.problem)
}

/** The text of a request before its checks: equally many of each. */
type Sent = z.output<ReturnType<typeof requestSchema>>

const rowOf = ({ query, prompts, labels }: Sent, i: number): E.Either<ApiFailure, ScoredRow> => {
  const [text, prompt] = [query[i]!, prompts[i]!] // the lists have equal lengths
  const at = indexOfText(text, prompt) // a tokenizer may add a first token
  if (at === -1) return E.left(apiFailure(422, `query[${i}] does not contain prompts[${i}]`, `query[${i}]`))
  const read = fieldsOf(labels[i]!)
  if (E.isLeft(read)) return E.left(apiFailure(422, `labels[${i}]: ${read.left}`, `labels[${i}]`))
  const fields = read.right
  const { answer = '' } = fields
  if (typeof answer !== 'string') return E.left(apiFailure(422, `labels[${i}].answer must be a string`, `labels[${i}]`))
  return E.right({
    task: { ...fields, id: String(i), query: typeof fields.query === 'string' ? fields.query : prompt, answer },
    completion: withoutEnd(text.slice(at + prompt.length)),
  })
}

/**
 * Reads the rows of a request.
 *
 * Errors   `Left(ApiFailure)`: 413 for more than `maxRows`, 422 with the field.
 */
export const scoredRows = (body: unknown, maxRows: number): E.Either<ApiFailure, readonly ScoredRow[]> => {
  const rows = isRecord(body) && Array.isArray(body.query) ? body.query.length : 0
  if (rows > maxRows) return E.left(apiFailure(413, `at most ${maxRows} completions per request, got ${rows}`))
  const read = requestSchema(maxRows).safeParse(body)
  if (!read.success) {
    const [{ path, message: problem }] = read.error.issues as [z.core.$ZodIssue] // a failure has one
    return E.left(apiFailure(422, `${path.join('.')}: ${problem}`, path.join('.')))
  }
  const { query, prompts, labels } = read.data
  if (prompts.length !== query.length || labels.length !== query.length) {
    const counts = `${query.length}, ${prompts.length} and ${labels.length}`
    return E.left(apiFailure(422, `query, prompts and labels must have equal lengths, got ${counts}`))
  }
  return E.sequenceArray(query.map((_, i) => rowOf(read.data, i)))
}

/** Makes the thread that reads large requests of at most `maxRows` rows. */
export const rowThread = (maxRows: number): BodyThread =>
  bodyThread({ module: import.meta.url, exportName: 'readRowBodies' }, maxRows)

/**
 * Reads the bodies of a server.
 *
 * @public by its name, in the thread
 */
export const readRowBodies = (port: ThreadPort, maxRows: unknown): void =>
  answerBodies(port, (_, json) => readValue(scoredRows(json, Number(maxRows))))
