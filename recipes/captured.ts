/** Training on captured sessions: a proxy records an agent's tokens and log-probabilities. */
import * as E from 'fp-ts/lib/Either.js'
import * as T from 'tandem-rl'
import { type CapturedSession, captureApp, capturedBatch, readCapture } from 'tandem-rl/agents'
import { fileBytes } from 'tandem-rl/files'
import { sharedParams } from 'tandem-rl/models'
import { gsm8kReward } from 'tandem-rl/rewards'
import { closing, exportsOf, learnerParts } from 'tandem-rl/run'
import { modelEngine } from 'tandem-rl/serve'

const answerSchema = T.z.object({
  choices: T.z.tuple([T.z.object({ message: T.z.object({ content: T.z.string() }) })]),
})

/** Plays the default agent, which only uses a chat API, and returns its captured sessions. */
const playedSessions = async (
  model: T.Pretrained,
  key: T.Key,
  { groups, size, maxNewTokens }: { readonly groups: number; readonly size: number; readonly maxNewTokens: number },
): Promise<readonly CapturedSession[]> => {
  using params = sharedParams(model)
  const engine = modelEngine({ config: model.config, params: params.value, tokenizer: model.text.tokenizer })
  // Times are fixed, so that a resumed run plays equal sessions.
  const world = { calendar: { today: () => new Date(0) } }
  const served = { engine, model: { names: ['policy'], root: T.EMBEDDED_MODEL }, text: model.text, key, world }
  const proxy = captureApp(served, { clock: { now: () => 0 } })
  const post = async (path: string, body: object): Promise<unknown> => {
    const headers = { 'content-type': 'application/json' }
    const request = new Request(`http://proxy${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    return (await proxy.fetch(request)).json()
  }
  const source = T.wordProblems(key, { split: 'rl' })
  const play = async (group: number, member: number): Promise<void> => {
    const task = T.orThrow(source.at(group))
    const session = `${group}-${member}`
    await post('/sessions', { session_id: session, group_id: task.id })
    const messages = [{ role: 'user', content: task.query }]
    const answer = await post(`/sessions/${session}/v1/chat/completions`, { messages, max_tokens: maxNewTokens })
    const { content } = answerSchema.parse(answer).choices[0].message
    await post(`/sessions/${session}/reward`, { reward: gsm8kReward(content, task.answer).reward })
    await post(`/sessions/${session}/finish`, {})
  }
  for (let group = 0; group < groups; group++)
    await Promise.all(Array.from({ length: size }, (_, member) => play(group, member)))
  await engine.close()
  return proxy.sessions()
}

export const recipe = T.defineRecipe({
  name: 'captured',
  summary: 'Train a model by GRPO on captured sessions of an agent: a file of tandem capture, or a built-in agent.',
  settings: T.withDefaults(T.dataSettings.omit({ batch: true }), { steps: 16, keep: { evalEvery: 4 } }).extend({
    tasks: T.settings.tasks,
    dataset: T.z
      .string()
      .nullable()
      .default(null)
      .describe('file of tandem capture; off: sessions of the built-in agent'),
    sessions: T.z.number().int().positive().default(128).describe('tasks for the built-in agent'),
    maxNewTokens: T.z
      .number()
      .int()
      .positive()
      .default(64)
      .describe('longest completion of the built-in agent in tokens'),
  }),
  build: async (settings) => {
    const model = await T.orThrow(T.loadPretrained(settings.model))
    const key = T.keyFromSeed(settings.seed)
    const { prompts: size, group: groupSize } = settings.tasks
    const play = { groups: settings.sessions, size: groupSize, maxNewTokens: settings.maxNewTokens }
    const sessions =
      settings.dataset === null
        ? await playedSessions(model, T.child(key, 'agent'), play)
        : (await T.orThrow(readCapture(await T.orThrow(fileBytes(settings.dataset))))).sessions
    const groups = [...new Set(sessions.map(({ group }) => group))].map((name) =>
      sessions.filter(({ group }) => group === name),
    )
    const advantage = T.MCAdvantage({ groupSize })
    const batch = (rows: readonly (readonly CapturedSession[])[]) =>
      T.pipe(
        capturedBatch(rows.flat(), { groupSize }),
        E.map((captured) => advantage(captured.batch)),
      )
    const data = T.rowBatches({ name: 'sessions', rows: groups, size, key: T.child(key, 'order'), batch })
    const learner = T.localLearner({ ...learnerParts(settings, model), loss: T.GRPOLoss({ clipEpsilon: 0.2 }) })

    const sampling = { temperature: 0, maxNewTokens: settings.maxNewTokens }
    const policy = T.TransformersWrapper({ config: model.config, params: learner.weights(), sampling })
    const problems = ({ groups: prompts, start }: T.EvaluationContext) =>
      T.tokenEnv(T.GSM8KEnv({ source: T.heldOutProblems(), prompts, repeats: 1, start }), model.text)
    const evaluate = [T.evaluator({ env: problems, policy, tasks: settings.keep.evalTasks })]
    const record = { exports: exportsOf(settings, model, learner) }
    return closing(
      T.defineRun({ data, learner, updater: T.inProcessUpdater(policy), evaluate, record }),
      policy.release,
    )
  },
})
