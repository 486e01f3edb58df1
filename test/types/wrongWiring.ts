/**
 * Programs of the README, the guide, the examples and the recipes, each with one part missing or
 * wrong. The first line of the compiler's message must name that part.
 */

/** The names in scope of the programs. */
export const WIRING_PRELUDE = `
import * as T from 'tandem-rl'
import { type RewardedTurns } from 'tandem-rl/objectives'
import { type OpenAIWrapper } from 'tandem-rl/remote'
import { type tinkerLearner } from 'tandem-rl/tinker'
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
const tokens = ({ groups, start }: T.EvaluationContext) => T.tokenEnv(T.GSM8KEnv({ source, prompts: groups, start }), text)
export { T, chat, chatPolicy, collector, distill, dpo, kl, pairs, ppo, textPolicy, tinker, tokens, valued, advantage, batch }
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
  ...all('evaluator', 'T.evaluator({ env: tokens, policy, tasks: 2 })', EVALUATORS),
]
