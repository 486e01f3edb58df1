/** The exact policy of a model: its probabilities in each decision, and their NashConv. */
import { keyFromSeed } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import type { LogProbModel } from '../../../../src/data/policy.js'
import { ragged, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import type { ModelText } from '../../../../src/modules/pretrained/pretrained.js'
import { CHAT_ML_SPEECH } from '../../../../test/kit/agents.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { expectedReturns } from '../../src/games/exactValues.js'
import { kuhnPoker } from '../../src/games/kuhnPoker.js'
import { rockPaperScissors } from '../../src/games/matrixGames.js'
import { decisionPolicy, modelDecisions, nashConvEvaluator } from '../../src/run/modelDecisions.js'

useEngine()

const text: ModelText = { ...CHAT_ML_SPEECH, files: {} }
const { tokenizer } = CHAT_ML_SPEECH

/** Gives the reply of an action a probability, all in its first token. */
const scoring = (probabilityOf: (prompt: string, reply: string) => number): LogProbModel => ({
  name: 'scoring',
  score: (prompts, completions) => {
    const asked = raggedRows(prompts).map((ids) => tokenizer.decode(ids, 'keep'))
    return TE.right(
      ragged(
        'float32',
        raggedRows(completions).map((ids, i) => {
          const reply = tokenizer.decode(ids, 'skip')
          return Array.from(ids, (_, t) => (t === 0 ? Math.log(probabilityOf(asked[i]!, reply)) : 0))
        }),
      ),
    )
  },
})

const game = kuhnPoker()

describe('modelDecisions', () => {
  it('has the 12 decisions of Kuhn poker, with probabilities among the legal actions', async () => {
    const model = scoring((_, reply) => (reply === '[Bet]' ? 0.2 : 0.6))
    const decisions = await modelDecisions({ game, model, text })
    expect(decisions).toHaveLength(12)
    for (const { probabilities, legal, actions } of decisions) {
      expect(actions).toEqual(['Pass', 'Bet'])
      expect(legal).toBeCloseTo(0.8, 5)
      expect(probabilities[0]).toBeCloseTo(0.75, 5)
    }
    const policy = decisionPolicy(decisions)
    expect(expectedReturns(game, [policy, policy])[0]).toBeTypeOf('number')
    expect(() => policy({ player: 0, informationState: '9', legalActions: [0, 1] })).toThrow(/no decision/)
  })

  it('asks with the prompt of the decision', async () => {
    const model = scoring((asked, reply) => ((reply === 'Bet') === asked.includes('card 2') ? 0.9 : 0.1))
    const decisions = await modelDecisions({
      ...{ game, model, text, reply: (action) => action },
      prompt: ({ state, player }) => `card ${game.informationState(state, player)[0]}`,
    })
    for (const { informationState, probabilities } of decisions)
      expect(probabilities[1]).toBeCloseTo(informationState.startsWith('2') ? 0.9 : 0.1, 5)
  })

  it('has one decision for each player of a simultaneous game', async () => {
    const decisions = await modelDecisions({ game: rockPaperScissors, model: scoring(() => 0.1), text })
    expect(decisions.map(({ player }) => player)).toEqual([0, 1])
    expect(decisions[0]!.legal).toBeCloseTo(0.3, 5)
  })
})

describe('nashConvEvaluator', () => {
  it('has the NashConv 11/12 for a uniform model, and its legal mass', async () => {
    const evaluator = nashConvEvaluator({ game, model: scoring(() => 0.4), text })
    expect(evaluator).toMatchObject({ score: 'nashConv', measure: 'loss', tasks: 12 })
    for await (const { results } of evaluator.run(keyFromSeed(1))) {
      const scores = evaluator.scoresOf(results)
      expect(scores.nashConv).toBeCloseTo(11 / 12, 5)
      expect(scores.legal).toBeCloseTo(0.8, 5)
    }
  })
})
