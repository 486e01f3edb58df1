/** Kuhn poker by self-play: a model without a plan approaches an equilibrium. */
import * as T from 'tandem-rl'
import { gameRun, gameSettings, nashConvEvaluator, type PromptScene } from 'tandem-rl/agents'
import { kuhnPoker } from 'tandem-rl/games'
import { BARE_CHAT } from 'tandem-rl/models'
import { History, message, textOf } from 'tandem-rl/text'

/** Each game gives a row for each decision. The reference of the KL term follows the policy. */
const settings = T.withDefaults(gameSettings, {
  ...{ steps: 150, tasks: { prompts: 512, group: 1 }, sampling: { maxNewTokens: 3 } },
  ...{
    loss: { algorithm: 'rloo' },
    kl: { in: 'loss', form: 'k2', coefficient: 0.15 },
    learner: { learningRate: 4e-4, schedule: 'cosine', optimizerOptions: { beta1: 0, beta2: 0.99 } },
  },
  ...{ selfPlay: { baseline: 'prompt' }, keep: { evalEvery: 10 } },
}).extend({
  shown: T.z.number().int().positive().default(16000).describe('decisions for training the start model'),
})

const game = kuhnPoker()

/** The observation of a player: its card, and the actions so far. */
const prompt = ({ state, player }: Pick<PromptScene<typeof game.initial.position>, 'state' | 'player'>): string =>
  `${game.informationState(state, player)}:`

/**
 * A decision of a player without a plan: it bets seven times of ten in half of the situations, and three
 * times of ten in the others.
 */
const shownDecision = (key: T.Key): History => {
  const seen = ['', 'p', 'b', 'pb'][T.uniformInteger(key, 4, 0)]!
  const card = T.uniformInteger(key, 3, 1)
  const isBet = T.uniform(key, 2) < ((card + seen.length) % 2 === 0 ? 0.7 : 0.3)
  return History([message('user', `${card}${seen}:`), message('assistant', isBet ? 'Bet' : 'Pass')])
}

export const recipe = T.defineRecipe({
  name: 'kuhnPoker',
  summary: 'Make a tiny model and train it by self-play towards an equilibrium of Kuhn poker.',
  settings,
  build: async (chosen) => {
    const key = T.keyFromSeed(chosen.seed)
    const decision = (index: number) => shownDecision(T.child(T.child(key, 'decisions'), index))
    const texts = Array.from({ length: 100 }, (_, i) => decision(i).messages.map(textOf).join('\n'))
    const model = T.orThrow(
      await T.makeModel({
        family: 'qwen3',
        sizes: { hiddenSize: 32, layers: 1, heads: 2 },
        tokenizer: { texts, vocabularySize: 280, format: BARE_CHAT },
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
