/**
 * Kuhn poker by self-play: a model without a plan approaches an equilibrium.
 * Needs the package `@tandem-rl/games`.
 */
import {
  anyGame,
  gameRun,
  gameSettings,
  nashConvEvaluator,
  type PromptScene,
  seatTasks,
  soloGame,
  solveGame,
} from '@tandem-rl/games'
import { kuhnPoker, policyStrategy } from '@tandem-rl/games/rules'
import { History, message, textOf } from '@tandem-rl/text'
import * as T from 'tandem-rl'
import { BARE_CHAT } from 'tandem-rl/models'

/** Each game gives a row for each decision. The reference of the KL term is the start model. */
const settings = T.withDefaults(gameSettings, {
  ...{ steps: 250, tasks: { prompts: 256, group: 1 }, sampling: { maxNewTokens: 3 } },
  ...{
    loss: { algorithm: 'rloo' },
    kl: { in: 'loss', form: 'k2', coefficient: 0.15 },
    learner: { learningRate: 1e-3, warmup: 10, schedule: 'cosine', optimizerOptions: { beta1: 0, beta2: 0.99 } },
  },
  ...{ selfPlay: { baseline: 'prompt' }, keep: { evalEvery: 10 } },
}).extend({
  shown: T.z.number().int().positive().default(16000).describe('decisions for training the start model'),
})

const game = kuhnPoker()

/** The observation of a player, as one word: its card, and the actions so far. */
const asWord = (informationState: string): string =>
  `${'JQK'[Number(informationState[0])]!}${informationState.slice(1)}`

const prompt = ({ state, player }: Pick<PromptScene<typeof game.initial.position>, 'state' | 'player'>): string =>
  asWord(game.informationState(state, player))

/** A decision of a player without a plan, who bets every second time. */
const shownDecision = (key: T.Key): History => {
  const informationState = `${T.uniformInteger(key, 3, 1)}${['', 'p', 'b', 'pb'][T.uniformInteger(key, 4, 0)]!}`
  const reply = T.uniform(key, 2) < 0.5 ? 'Bet' : 'Pass'
  return History([message('user', asWord(informationState)), message('assistant', reply)])
}

export const recipe = T.defineRecipe({
  name: 'kuhnPoker',
  summary: 'Make a tiny model and train it by self-play towards an equilibrium of Kuhn poker.',
  settings,
  envOfTask: () => soloGame({ game, opponent: policyStrategy(solveGame(anyGame(game))), solvedAt: 1 }),
  tasks: () => seatTasks(game),
  build: async (chosen) => {
    const key = T.keyFromSeed(chosen.seed)
    const decision = (index: number) => shownDecision(T.child(T.child(key, 'decisions'), index))
    const texts = Array.from({ length: 100 }, (_, i) => decision(i).messages.map(textOf).join('\n'))
    const model = T.orThrow(
      await T.makeModel({
        family: 'qwen3',
        sizes: { hiddenSize: 32, layers: 1, heads: 2 },
        tokenizer: { texts, vocabularySize: 320, format: BARE_CHAT },
        key: T.child(key, 'model'),
        stages: [
          { name: 'decisions', conversation: decision, conversations: chosen.shown, batch: 64, learningRate: 3e-3 },
        ],
      })(),
    )
    return gameRun(chosen, {
      model,
      play: { game, text: { prompt, memory: 'turn' } },
      evaluate: (models) => [
        nashConvEvaluator({ game, model: models.model, text: model.text, prompt, reply: (action) => action }),
      ],
    })
  },
})
