/** JSON schemas of OpenEnv's messages, for checks and for the route `/schema`. */
import type { ThreadPort } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { answerBodies, type BodyThread, bodyThread, readValue } from '../bodies/bodyThread.js'

const metadata = z.record(z.string(), z.unknown())

/** The action of a turn, as a client sends it. */
const actionSchema = z.strictObject({
  message: z.string().describe("the model's reply"),
  metadata: metadata.optional(),
})

const resetSchema = z.looseObject({
  seed: z.number().int().min(0).nullish().describe('selects the task, and the random numbers of the environment'),
  episode_id: z.string().max(255).nullish(),
  query: z.string().optional().describe('the task; further fields belong to it'),
  answer: z.string().optional(),
})

/** The parameters of a reset: OpenEnv's, and the fields of a task. */
export type ResetFields = Readonly<z.output<typeof resetSchema>>

/** A step without a session: a reset and one action. */
const stepSchema = resetSchema.extend({
  action: actionSchema,
  timeout_s: z.number().positive().nullish(),
  request_id: z.string().max(255).nullish(),
})

const messageSchema = z.looseObject({ role: z.string(), content: z.union([z.string(), z.array(z.unknown())]) })

const observationSchema = z.object({
  messages: z.array(messageSchema).describe("new messages since the model's last reply"),
  success: z.boolean().nullable().describe('at the end: the task is solved'),
})

const stateSchema = z.object({
  episode_id: z.string().nullable(),
  step_count: z.number().int().min(0),
  task_id: z.string().nullable(),
  messages: z.array(messageSchema).describe('the whole conversation'),
})

/** A frame from a client. */
const frameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('reset'), data: resetSchema.default({}) }),
  z.strictObject({ type: z.literal('step'), data: actionSchema }),
  z.strictObject({ type: z.literal('state') }),
  z.strictObject({ type: z.literal('close') }),
])

/** The problems of a message. `isUnknown` is true for a frame of no known type. */
export interface PlayProblems {
  readonly problems: readonly object[]
  readonly isUnknown: boolean
}

const LONGEST = 500

/** Checks a message. Problems are a right value, too, because each route has its own answer. */
const reader =
  <S extends z.ZodType>(schema: S) =>
  (json: unknown): E.Either<never, E.Either<PlayProblems, z.output<S>>> => {
    const parsed = schema.safeParse(json)
    if (parsed.success) return E.right(E.right(parsed.data))
    const { issues } = parsed.error
    const problems = issues.map(({ path, message }) => ({ loc: path, msg: message.slice(0, LONGEST) }))
    return E.right(E.left({ problems, isUnknown: issues.some(({ code }) => code === 'invalid_union') }))
  }

/** The readers of the routes and of frames. */
export const readPlay = { reset: reader(resetSchema), step: reader(stepSchema), frame: reader(frameSchema) } as const

/** Makes the thread that reads large messages. */
export const playThread = (): BodyThread => bodyThread({ module: import.meta.url, exportName: 'readPlayBodies' }, null)

/**
 * Reads the messages of a server.
 *
 * @public by its name, in the thread
 */
export const readPlayBodies = (port: ThreadPort): void =>
  answerBodies(port, ({ reader: name }, json) => readValue(readPlay[name as keyof typeof readPlay](json))) // of a route

/** The schemas of actions, observations and states, as OpenEnv's `/schema` returns them. */
export const openEnvSchemas = () => ({
  action: { title: 'MessageAction', ...z.toJSONSchema(actionSchema, { io: 'input' }) },
  observation: { title: 'MessagesObservation', ...z.toJSONSchema(observationSchema) },
  state: { title: 'EpisodeState', ...z.toJSONSchema(stateSchema) },
})
