/** Reader of Inspect's logs: `.eval`, a zip archive with a file for each sample. */
import { type ByteSource, type Failure, parseJsonAs } from '@tandem-rl/base'
import { fileBytes } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { type ForeignLog, type ForeignReader, foreignFailure } from './foreignLog.js'
import { eventSchema, inspectAgents } from './inspectAgents.js'
import { type ForeignMessage, turnsOfMessages } from './messages.js'
import type { ViewedTurn } from './viewedTurn.js'
import { rolloutId } from './viewedTurn.js'
import { readZipEntry, type ZipEntry, zipEntries } from './zip.js'

const FORMAT = 'Inspect log'

const partSchema = z.looseObject({ type: z.string(), text: z.string().optional(), reasoning: z.string().optional() })

const messageSchema = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(partSchema)]),
  tool_calls: z.array(z.looseObject({ function: z.string(), arguments: z.unknown().optional() })).nullish(),
  error: z.looseObject({ type: z.string(), message: z.string() }).nullish(),
})

const sampleSchema = z.looseObject({
  id: z.union([z.string(), z.number()]),
  epoch: z.number(),
  target: z.union([z.string(), z.array(z.string())]).nullish(),
  messages: z.array(messageSchema),
  scores: z.record(z.string(), z.looseObject({ value: z.unknown().optional() })).nullish(),
  error: z.unknown().optional(),
  events: z.array(eventSchema).default([]),
  attachments: z.record(z.string(), z.string()).default({}),
  output: z
    .looseObject({ choices: z.array(z.looseObject({ stop_reason: z.string().nullish() })).default([]) })
    .nullish(),
})

const headerSchema = z.looseObject({
  status: z.string(),
  eval: z.looseObject({
    task: z.string(),
    model: z.string(),
    created: z.string().nullish(),
    dataset: z.looseObject({ name: z.string().nullish() }).nullish(),
  }),
})

type Sample = z.infer<typeof sampleSchema>

const ATTACHMENT = 'attachment://'

/** Replaces the name of a long text that is kept apart by the text. */
const whole = (text: string, { attachments }: Pick<Sample, 'attachments'>): string =>
  text.startsWith(ATTACHMENT) ? (attachments[text.slice(ATTACHMENT.length)] ?? text) : text

const textOf = ({ content }: z.infer<typeof messageSchema>, sample: Sample): string => {
  if (typeof content === 'string') return whole(content, sample)
  const texts = content.map(({ type, text, reasoning }) => {
    if (reasoning !== undefined) return `<think>\n${whole(reasoning, sample)}\n</think>`
    return text === undefined ? `[${type}]` : whole(text, sample)
  })
  return texts.join('\n')
}

const messageOf = (message: z.infer<typeof messageSchema>, sample: Sample): ForeignMessage => ({
  role: message.role,
  text: message.error ? `${message.error.type}: ${message.error.message}` : textOf(message, sample),
  ...(message.error && { isError: true }),
  ...(message.tool_calls && {
    toolCalls: message.tool_calls.map((call) => ({ name: call.function, arguments: JSON.stringify(call.arguments) })),
  }),
})

/** Inspect's letters for scores: correct, partially correct, incorrect, no answer. */
const LETTERS: Readonly<Record<string, number>> = { C: 1, P: 0.5, I: 0, N: 0 }

const scoreOf = (value: unknown): number | undefined => {
  if (typeof value === 'number') return value
  if (typeof value === 'boolean') return Number(value)
  return typeof value === 'string' && Object.hasOwn(LETTERS, value) ? LETTERS[value] : undefined
}

/** Returns the numbers of all scores. Scores with several values have one number for each. */
const partsOf = ({ scores }: Sample): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(scores ?? {}).flatMap(([name, { value }]) => {
      const each = typeof value === 'object' && value !== null ? Object.entries(value) : [['', value] as const]
      return each.flatMap(([key, one]) => {
        const score = scoreOf(one)
        return score === undefined ? [] : [[key === '' ? name : `${name}.${key}`, score] as const]
      })
    }),
  )

/** Converts a sample. Its reward is the first score; the epochs of a sample are a group. */
const turnsOf = (sample: Sample): readonly ViewedTurn[] => {
  const parts = partsOf(sample)
  const place = { step: 1, trajectoryId: `${sample.id}:${sample.epoch}` }
  const agents = inspectAgents(sample.events, rolloutId(place))
  const turns = turnsOfMessages(
    sample.messages.map((message) => messageOf(message, sample)),
    {
      ...place,
      groupId: String(sample.id),
      ...(agents !== null && { agents }),
      answer: [sample.target ?? []].flat().join(', '),
      policyVersion: null,
      reward: Object.values(parts)[0] ?? 0,
      parts,
      failed: sample.error !== undefined && sample.error !== null,
    },
  )
  const stop = sample.output?.choices[0]?.stop_reason
  const stopReason = stop === 'max_tokens' || stop === 'model_length' ? 'length' : (stop ?? null)
  return turns.map((turn, i) => (i === turns.length - 1 ? { ...turn, stopReason } : turn))
}

const decoder = new TextDecoder()

const readAs = <T>(source: ByteSource, entry: ZipEntry, schema: z.ZodType<T>): TE.TaskEither<Failure, T> =>
  pipe(
    readZipEntry(source, entry),
    TE.chainEitherKW((bytes) =>
      pipe(
        parseJsonAs(schema, decoder.decode(bytes)),
        E.mapLeft((reason) => foreignFailure(FORMAT, source.name, `${entry.name}: ${reason}`)),
      ),
    ),
  )

const readEval = (source: ByteSource): TE.TaskEither<Failure, ForeignLog> =>
  pipe(
    zipEntries(source),
    TE.bindTo('entries'),
    TE.bindW('head', ({ entries }) => {
      const header = entries.find(({ name }) => name === 'header.json')
      return header === undefined
        ? TE.left(foreignFailure(FORMAT, source.name, 'it has no header.json: the evaluation has not ended'))
        : readAs(source, header, headerSchema)
    }),
    TE.bindW('samples', ({ entries }) =>
      pipe(
        entries.filter(({ name }) => /^samples\/[^/]+\.json$/.test(name)),
        TE.traverseSeqArray((entry) => readAs(source, entry, sampleSchema)),
      ),
    ),
    TE.map(({ head, samples }) => ({
      model: head.eval.model,
      data: head.eval.dataset?.name ?? head.eval.task,
      startedAt: head.eval.created ?? null,
      settings: { task: head.eval.task, status: head.status },
      turns: samples.flatMap(turnsOf),
    })),
  )

export const inspectReader: ForeignReader = {
  format: FORMAT,
  hasName: (name) => name.endsWith('.eval'),
  unit: 'file',
  read: (files, [path = '']) => pipe(fileBytes(path, files), TE.chainW(readEval)),
}
