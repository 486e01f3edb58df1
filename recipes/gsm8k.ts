/**
 * Trains any model on GSM8K by GRPO, sampling in this process or on a server with vLLM's protocol.
 */
import * as T from 'tandem-rl'
import { GSM8K } from 'tandem-rl/datasets'
import { envOfTask, GSM8K_SYSTEM_PROMPT } from 'tandem-rl/envs'
import { vLLMSampler } from 'tandem-rl/run'

const problemEnv =
  (source: T.TaskSource, { systemPrompt }: { readonly systemPrompt: string | null }) =>
  (tasks: T.TaskContext) =>
    T.GSM8KEnv({ source, ...(systemPrompt !== null && { systemPrompt }), ...tasks })

export const recipe = T.defineRecipe({
  name: 'gsm8k',
  summary: 'Train a model by GRPO on GSM8K, sampling in this process or on a server.',
  settings: T.withDefaults(T.policySettings, { steps: 200, sampling: { maxNewTokens: 256 } }).extend({
    ...T.rowSettings({
      rows: 'rows with question and answer',
      from: 'openai/gsm8k',
      columns: { question: 'question', answer: 'answer' },
    }),
    systemPrompt: T.z.string().nullable().default(GSM8K_SYSTEM_PROMPT).describe('system prompt; off: none'),
    engine: T.z
      .strictObject({
        url: T.z
          .string()
          .nullable()
          .default(null)
          .describe('URL of a server for sampling (tandem serve --dev, or vLLM); off: sample in this process')
          .meta({ flag: 'engine' }),
        model: T.z
          .string()
          .default('policy')
          .describe('name of the model on the server')
          .meta({ flag: 'engine-model' }),
        folder: T.z
          .string()
          .nullable()
          .default(null)
          .describe('folder shared with the server, for weights; off: a temporary folder')
          .meta({ flag: 'engine-folder' }),
      })
      .prefault({}),
  }),
  mayChange: ['engine'],
  envOfTask: (settings) => envOfTask((source) => problemEnv(source, settings)),
  tasks: async (settings) => (await T.orThrow(T.rowTasks(settings, GSM8K))).train,
  build: async (settings, context) => {
    const { engine, sampling } = settings
    const data = await T.orThrow(T.rowTasks(settings, GSM8K))
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const source = T.shuffled(data.train, T.child(T.keyFromSeed(settings.seed), 'tasks'))
    const problems = (from: typeof source) => problemEnv(from, settings)
    const sampler =
      engine.url === null
        ? undefined
        : await vLLMSampler({
            ...{ url: engine.url, name: engine.model, model, sampling },
            ...(engine.folder !== null && { folder: engine.folder }),
          })
    const heldOut = [{ env: problems(data.heldOut), tasks: data.heldOutTasks }]
    return T.defineRun(
      T.grpoParts(settings, { model, env: problems(source), heldOut, ...(sampler && { sampler }) }),
      context,
    )
  },
})
