/**
 * Programs of the README, the guide, the examples and the recipes, each with one part missing or
 * wrong. The first line of the compiler's message must name that part.
 */

/** The names in scope of the programs. */
export const WIRING_PRELUDE = `
import * as T from 'tandem-rl'
import { type RewardedTurns } from 'tandem-rl/objectives'
import { capture } from '@tandem-rl/serve'
import { type BatchSource, valueRater } from 'tandem-rl/run'
import { type OpenAIWrapper } from 'tandem-rl/remote'
import { type tinkerLearner } from '@tandem-rl/tinker/learner'
declare const model: T.Pretrained
declare const chatPolicy: ReturnType<typeof OpenAIWrapper>
declare const textPolicy: T.Policy<T.TextPrompt, T.TextAction>
declare const tinker: Awaited<ReturnType<typeof tinkerLearner<T.PolicyBatch, { readonly loss: number; readonly gradNorm: number }>>>
const { config, text } = model
const key = T.keyFromSeed(1)
const source = T.wordProblems(key, { split: 'rl' })
const chat = T.GSM8KEnv({ source, prompts: 16, repeats: 8 })
const template = T.TemplateTransform(text)
const tokenizer = T.Tokenizer(text)
const env = T.pipe(chat, T.append(template), T.append(tokenizer))
const optimizer = T.adamW({ learningRate: 1e-4 })
const learner = T.localLearner({ model, loss: T.GRPOLoss(), optimizer, key })
const dpo = T.localLearner({ model, loss: T.dpoLoss(), optimizer, key })
const ppo = T.localLearner({ model, loss: T.ppoLoss(), optimizer, key })
const distill = T.localLearner({ model, loss: T.DistillationLoss(), optimizer, key })
const policy = T.TransformersWrapper({ config, params: learner.weights() })
const kl = T.KLRewardTransform({ reference: policy, coefficient: 0 })
const advantage = T.MCAdvantage({ groupSize: 8 })
const collector = T.LLMCollector({ env, policy, key })
type BatchOf<C> = C extends AsyncIterable<infer B> ? B : never
declare const batch: BatchOf<typeof collector>
declare const pairs: T.TD.TensorDict<T.PreferenceBatch>
declare const valued: T.TD.TensorDict<T.PPOBatch & RewardedTurns & T.DistillationBatch>
const settings = T.policySettings.parse({})
const task = (tasks: T.TaskContext) =>
  T.SingleTurnEnv({ source, reward: ({ prediction, answer }) => Number(prediction === answer), ...tasks })
const agent = capture({ run: async ({ query }: T.Task) => query })
declare const chats: BatchSource<T.CompletionEntries>
const played = T.tokenEnv(chat, text)
const tokens = ({ groups, start }: T.EvaluationContext) => T.tokenEnv(T.GSM8KEnv({ source, prompts: groups, start }), text)
export { T, agent, chat, chats, played, settings, task, valueRater,  chatPolicy, collector, distill, dpo, kl, pairs, ppo, textPolicy, tinker, tokens, valued, advantage, batch }
`

/** A wrong program with the part of the first line that names the fault, and the right program. */
export interface WrongWiring {
  readonly title: string
  readonly wrong: string
  readonly right: string
  readonly firstLine: string
}

const TRANSFORMS = [
  ['no TemplateTransform', 'T.pipe(chat, T.append(tokenizer))', 'Appending<"after TemplateTransform", '],
  [
    'two transforms swapped',
    'T.pipe(chat, T.append(tokenizer), T.append(template))',
    'Appending<"after TemplateTransform", ',
  ],
  ['no TemplateTransform, without pipe', 'T.append(tokenizer)(chat)', 'Needs<"after TemplateTransform", '],
  [
    'no TemplateTransform before a composed chain',
    'T.pipe(chat, T.append(T.compose(tokenizer, kl)))',
    'Appending<"after TemplateTransform", ',
  ],
  [
    'no Tokenizer before KLRewardTransform',
    'T.pipe(chat, T.append(template), T.append(kl))',
    'Appending<"after Tokenizer", ',
  ],
  [
    'a reward without tasks',
    'T.pipe(T.ChatEnv({ batchSize: 1 }), T.append(T.GSM8KRewardParser()))',
    'Appending<"after DataLoadingPrimer", ',
  ],
] as const

const COLLECT = 'T.LLMCollector({ env, policy, key })'

const COLLECTORS = [
  [
    'no Tokenizer',
    'T.LLMCollector({ env: T.pipe(chat, T.append(template)), policy, key })',
    'tokens (Tokenizer adds it)',
  ],
  ['conversations for a token policy', 'T.LLMCollector({ env: chat, policy, key })', 'tokens (Tokenizer adds it)'],
  [
    'conversations for a token policy, task by task',
    'T.LLMCollector({ env: (start) => T.GSM8KEnv({ source, start }), policy, key, concurrent: { maxInFlight: 4 } })',
    'tokens (Tokenizer adds it)',
  ],
  [
    'a text policy for tokens',
    'T.LLMCollector({ env, policy: textPolicy, key })',
    'tokens (a token policy such as TransformersWrapper writes it)',
  ],
  [
    'a chat policy for tokens',
    'T.LLMCollector({ env, policy: chatPolicy, key })',
    'tokens (a token policy such as TransformersWrapper writes it)',
  ],
  [
    'a misspelled option',
    'T.LLMCollector({ env, policy, key, maxTurn: 3 })',
    "Object literal may only specify known properties, but 'maxTurn' does not exist",
  ],
  [
    'a misspelled option of concurrent',
    'T.LLMCollector({ env: () => env, policy, key, concurrent: { maxInFlight: 4, task: 3 } })',
    "'task' does not exist in type",
  ],
  [
    'one environment with concurrent',
    'T.LLMCollector({ env, policy, key, concurrent: { maxInFlight: 4 } })',
    "is not assignable to type '(task: number) => Env<",
  ],
  [
    'an environment for each task without concurrent',
    'T.LLMCollector({ env: () => env, policy, key })',
    "is not assignable to type 'Env<",
  ],
] as const

const LOOP = [
  ['no advantage', 'learner.update(batch)', 'advantage (MCAdvantage adds it)'],
  ['no advantage, on a server', 'tinker.update(batch)', 'advantage (MCAdvantage adds it)'],
  ['pairs are missing', 'dpo.update(advantage(batch))', 'chosen (pairBatch adds it)'],
  ['no values for PPO', 'ppo.update(advantage(batch))', 'values (valueRater adds it)'],
  ['no teacher', 'distill.update(batch)', 'teacherLogProbs (teacherRater adds it)'],
  ['GAE without values', 'T.GAE()(batch)', 'values (valueRater adds it)'],
  [
    'an update that was not run',
    'learner.update(advantage(batch)).then',
    "'then' does not exist on type 'TaskEither<LearnerFailure, Update<",
  ],
  [
    'a batch that was not collected',
    'collector.collect(collector.start).batch',
    "'batch' does not exist on type 'TaskEither<CollectorFailure, Collected<",
  ],
  [
    'a model that was not loaded',
    "T.localLearner({ model: T.loadPretrained('embedded'), loss: T.GRPOLoss(), optimizer, key })",
    "'TaskEither<ModelFailure, Pretrained>' is not assignable to type 'Pretrained'",
  ],
  [
    'a loss that was not called',
    'T.localLearner({ model, loss: T.GRPOLoss, optimizer, key })',
    "'(options?: GRPOLossOptions) => GRPOLoss' is not assignable to type 'Loss<",
  ],
] as const

const RIGHT_LOOP =
  '[learner.update(advantage(batch)), tinker.update(advantage(batch)), dpo.update(pairs), ppo.update(valued), distill.update(valued), T.GAE()(valued)]'

const RIGHT_RUNS = `[
  T.defineRun({ env, policy, advantage, learner, evaluate: [T.evaluator({ env: tokens, policy, tasks: 2 })] }),
  T.defineRun({ env: ({ groups, start }) => tokens({ groups, start }), policy, advantage, learner, collect: { groups: 16 } }),
  T.defineRun({ env, policy, rate: valueRater(ppo), advantage: T.GAE(), learner: ppo }),
  T.defineRun({ ...T.grpoParts(settings, { model, env: task }), loss: T.GRPOLoss(), advantage }).then(({ memory }) => memory),
  T.defineRun(T.grpoParts(settings, { model, agent, tasks: source })).then(({ trials }) => trials),
].map((run) => run)`.replaceAll('\n', ' ')

const RIGHT_RECIPES = `[
  T.defineRecipe({ name: 'a', summary: 'A.', env: (tasks, { settings }) => task({ ...tasks, repeats: settings.twice * 2 }), heldOut: task, settings: { twice: T.z.number().default(1) } }),
  T.defineRecipe({ name: 'a', summary: 'A.', agent, tasks: ({ key }) => T.wordProblems(key), heldOut: source }),
  T.defineRecipe({ name: 'a', summary: 'A.', settings: T.policySettings, build: (chosen, context) => T.defineRun(T.grpoParts(chosen, { model, env: task }), context), tasks: (chosen) => T.wordProblems(T.keyFromSeed(chosen.seed)) }),
]`.replaceAll('\n', ' ')

const EVALUATORS = [
  [
    'no Tokenizer',
    'T.evaluator({ env: ({ groups, start }) => T.GSM8KEnv({ source, prompts: groups, start }), policy, tasks: 2 })',
    'tokens (Tokenizer adds it)',
  ],
  [
    'a chat policy',
    'T.evaluator({ env: tokens, policy: chatPolicy, tasks: 2 })',
    "'ChatPolicy<Capture>' is not assignable to type 'Policy<TokenPrompt, TokenAction>'",
  ],
  [
    'a misspelled option',
    'T.evaluator({ env: tokens, policy, tasks: 2, temperature: 0 })',
    "'temperature' does not exist in type 'EvaluatorOptions<",
  ],
] as const

const RUNS = [
  ['no Tokenizer', 'T.defineRun({ env: chat, policy, advantage, learner })', 'tokens (Tokenizer adds it)'],
  [
    'no Tokenizer, batch by batch',
    'T.defineRun({ env: ({ groups, start }) => T.GSM8KEnv({ source, prompts: groups, start }), policy, advantage, learner })',
    'tokens (Tokenizer adds it)',
  ],
  ['no advantage', 'T.defineRun({ env: played, policy, learner })', 'Missing<"advantage (MCAdvantage adds it)">'],
  [
    'a misspelled advantage',
    'T.defineRun({ env: played, policy, advantages: advantage, learner })',
    'Missing<"advantage (MCAdvantage adds it)">',
  ],
  [
    'a loss of pairs',
    'T.defineRun({ env: played, policy, advantage, learner: dpo })',
    'Missing<"chosen (pairBatch adds it)" | "rejected (pairBatch adds it)">',
  ],
  [
    'no values',
    'T.defineRun({ env: played, policy, advantage: T.GAE(), learner: ppo })',
    'Missing<"values (valueRater adds it)">',
  ],
  [
    'advantages without returns',
    'T.defineRun({ env: played, policy, rate: valueRater(ppo), advantage, learner: ppo })',
    'Missing<"returns (GAE adds it)">',
  ],
  [
    'no teacher',
    'T.defineRun({ env: played, policy, learner: distill })',
    'Missing<"teacherLogProbs (teacherRater adds it)">',
  ],
  ['conversations for a loss of rollouts', 'T.defineRun({ data: chats, learner })', 'advantage (MCAdvantage adds it)'],
  [
    'a chat policy',
    'T.defineRun({ env: played, policy: chatPolicy, advantage, learner })',
    "'ChatPolicy<Capture>' is not assignable to type 'Policy<TokenPrompt, TokenAction>'",
  ],
  [
    'no policy',
    'T.defineRun({ env: played, advantage, learner })',
    '"env, policy and learner; data and learner; or grpoParts"',
  ],
  [
    'no learner',
    'T.defineRun({ env: played, policy, advantage })',
    '"env, policy and learner; data and learner; or grpoParts"',
  ],
  [
    'no environment',
    'T.defineRun({ policy, advantage, learner })',
    '"env, policy and learner; data and learner; or grpoParts"',
  ],
  [
    'options of an evaluator',
    'T.defineRun({ env: played, policy, advantage, learner, evaluate: [{ env: tokens, policy, tasks: 2 }] })',
    "'env' does not exist in type 'Evaluator'",
  ],
  [
    'a loss for the learner',
    'T.defineRun({ env: played, policy, advantage, learner: T.GRPOLoss() })',
    "'PolicyLoss' is missing the following properties from type 'Learner<",
  ],
  [
    'a misspelled option of collect',
    'T.defineRun({ env: played, policy, advantage, learner, collect: { group: 16 } })',
    "Did you mean to write 'groups'?",
  ],
  [
    'a loss of pairs, by settings',
    'T.defineRun({ ...T.grpoParts(settings, { model, env: task }), loss: T.dpoLoss() })',
    "'DPOLoss' is not assignable to type 'Loss<RolloutEntries, ",
  ],
  [
    'a run that was not awaited',
    'T.train(T.defineRun(T.grpoParts(settings, { model, env: task })), { steps: 1 })',
    "'Promise<PolicyRun>' is not assignable to parameter of type 'AnyRun'",
  ],
] as const

const PARTS = [
  ['no environment', 'T.grpoParts(settings, { model })', '"model and env, or model, agent and tasks"'],
  ['no model', 'T.grpoParts(settings, { env: task })', '"model and env, or model, agent and tasks"'],
  ['an agent without tasks', 'T.grpoParts(settings, { model, agent })', '"model and env, or model, agent and tasks"'],
  [
    'an environment, not a function',
    'T.grpoParts(settings, { model, env: chat })',
    "'Env<AnswerState, HistoryAction>' is not assignable to type 'TaskEnv<",
  ],
  [
    'an environment of tokens',
    'T.grpoParts(settings, { model, env: (tasks) => T.tokenEnv(task(tasks), text) })',
    ", TokenAction>' is not assignable to type 'TaskEnv<",
  ],
  [
    'a model that was not loaded',
    "T.grpoParts(settings, { model: T.loadPretrained('embedded'), env: task })",
    "'TaskEither<ModelFailure, Pretrained>' is not assignable to type 'Pretrained'",
  ],
  [
    'a misspelled option',
    'T.grpoParts(settings, { model, env: task, heldout: [] })',
    "Did you mean to write 'heldOut'?",
  ],
] as const

const RECIPES = [
  [
    'no environment',
    "T.defineRecipe({ name: 'a', summary: 'A.' })",
    '"name, summary, and env; agent and tasks; or settings and build"',
  ],
  [
    'no name',
    "T.defineRecipe({ summary: 'A.', env: task })",
    '"name, summary, and env; agent and tasks; or settings and build"',
  ],
  [
    'an agent without tasks',
    "T.defineRecipe({ name: 'a', summary: 'A.', agent })",
    '"name, summary, and env; agent and tasks; or settings and build"',
  ],
  [
    'an agent and an environment',
    "T.defineRecipe({ name: 'a', summary: 'A.', agent, env: task })",
    '"name, summary, and env; agent and tasks; or settings and build"',
  ],
  [
    'a whole recipe without settings',
    "T.defineRecipe({ name: 'a', summary: 'A.', build: () => T.defineRun({ env, policy, advantage, learner }) })",
    '"name, summary, and env; agent and tasks; or settings and build"',
  ],
  [
    'an environment, not a function',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: chat })",
    "'Env<AnswerState, HistoryAction>' is not assignable to type 'RecipeEnv<",
  ],
  [
    'a misspelled option',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: task, heldout: task })",
    "Did you mean to write 'heldOut'?",
  ],
  [
    'a misspelled setting',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: task, defaults: { step: 20 } })",
    "Did you mean to write 'steps'?",
  ],
  [
    'a loss of pairs',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: task, loss: T.dpoLoss() })",
    "'DPOLoss' is not assignable to type 'Loss<RolloutEntries, ",
  ],
  [
    'an advantage that is not lifted',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: task, advantage: (rewards: readonly number[]) => rewards })",
    "'(rewards: readonly number[]) => readonly number[]' is not assignable to type 'Advantage<",
  ],
  [
    'a model that was not run',
    "T.defineRecipe({ name: 'a', summary: 'A.', env: task, model: () => T.loadPretrained('embedded') })",
    "TaskEither<T.ModelFailure, T.Pretrained>' is not assignable to type '(context: ",
  ],
] as const

const all = (
  name: string,
  right: string,
  programs: readonly (readonly [string, string, string])[],
): readonly WrongWiring[] =>
  programs.map(([title, wrong, firstLine]) => ({ title: `${name}: ${title}`, wrong, right, firstLine }))

export const WRONG_WIRING: readonly WrongWiring[] = [
  ...all('append', 'T.pipe(chat, T.append(template), T.append(tokenizer), T.append(kl))', TRANSFORMS),
  ...all('LLMCollector', COLLECT, COLLECTORS),
  ...all('the loop', RIGHT_LOOP, LOOP),
  ...all('defineRun', RIGHT_RUNS, RUNS),
  ...all('grpoParts', 'T.grpoParts(settings, { model, env: task, heldOut: [{ env: task }] })', PARTS),
  ...all('defineRecipe', RIGHT_RECIPES, RECIPES),
  ...all('evaluator', 'T.evaluator({ env: tokens, policy, tasks: 2 })', EVALUATORS),
]
