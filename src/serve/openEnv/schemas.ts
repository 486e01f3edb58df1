/** JSON schemas of OpenEnv's messages, for checks and for the route `/schema`. */
import { z } from 'zod'

const metadata = z.record(z.string(), z.unknown())

/** What a client sends to play a turn. */
const actionSchema = z.strictObject({
  message: z.string().describe("the model's reply"),
  metadata: metadata.optional(),
})

export const resetSchema = z.looseObject({
  seed: z.number().int().min(0).nullish().describe('selects the task, and the random numbers of the environment'),
  episode_id: z.string().max(255).nullish(),
  query: z.string().optional().describe('the task; further fields belong to it'),
  answer: z.string().optional(),
})

/** The parameters of a reset: OpenEnv's, and the fields of a task. */
export type ResetFields = Readonly<z.output<typeof resetSchema>>

/** A step without a session: a reset and one action. */
export const stepSchema = resetSchema.extend({
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
export const frameSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('reset'), data: resetSchema.default({}) }),
  z.strictObject({ type: z.literal('step'), data: actionSchema }),
  z.strictObject({ type: z.literal('state') }),
  z.strictObject({ type: z.literal('close') }),
])

/** The schemas of actions, observations and states, as OpenEnv's `/schema` returns them. */
export const openEnvSchemas = () => ({
  action: { title: 'MessageAction', ...z.toJSONSchema(actionSchema, { io: 'input' }) },
  observation: { title: 'MessagesObservation', ...z.toJSONSchema(observationSchema) },
  state: { title: 'EpisodeState', ...z.toJSONSchema(stateSchema) },
})
