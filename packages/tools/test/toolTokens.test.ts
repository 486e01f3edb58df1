/** Conversations with tools in tokens: tool output is appended and masked out of the loss. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { scriptedPolicy } from '@tandem-rl/testing'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { GSM8KRewardParser } from '../../../src/envs/transforms/answerParsers.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { maskedRows } from '../../../src/learners/steps/sftRows.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import { END_OF_TURN, rowsAt, tasks, tokenizer } from '../../../test/kit/conversation.js'
import { useEngine, valuesOf } from '../../../test/kit/engine.js'
import { learnedRows } from '../../../test/kit/learners.js'
import { SMALL_DECODER } from '../../../test/kit/lossSteps.js'
import { tinyConfig } from '../../../test/kit/models.js'
import { ownTemplate } from '../../../test/kit/ownTemplates.js'
import { policyStep, type RowStep, sftStep } from '../../../test/kit/stepsOf.js'
import { descent, paddedTensor } from '../../../test/kit/trainingRows.js'
import { calculator } from '../src/tools/calculator.js'
import { SimpleToolTransform } from '../src/tools/simpleToolTransform.js'
import { tool } from '../src/tools/tool.js'
import { ToolRegistry, toolSpecs } from '../src/tools/toolRegistry.js'

useEngine()

/** Returns a word that appears nowhere else. */
const whisper = (word: string) =>
  tool({
    name: 'whisper',
    description: 'Whispers.',
    parameters: { n: z.number() },
    initial: null,
    run: async () => ({ content: word, state: null }),
  })

const call = (args: object): string => `<tool_call>${JSON.stringify({ name: 'whisper', arguments: args })}</tool_call>`
const right = '<answer>0</answer>'
const wrong = '<answer>7</answer>'

/**
 * Two members of a group: each calls the tool, in its own way, and then answers; the first is
 * right.
 */
const collect = async (word: string, shown: 'tools' | 'nothing' = 'nothing') => {
  const registry = ToolRegistry([whisper(word), calculator()])
  const env = pipe(
    DatasetChatEnv({ source: tasks(1), prompts: 1, repeats: 2 }), // asks for 0 + 0
    append(SimpleToolTransform({ registry, format: 'hermes' })),
    append(GSM8KRewardParser()),
    append(
      TemplateTransform({
        template: ownTemplate('hermes'),
        endOfTurn: END_OF_TURN,
        ...(shown === 'tools' && { tools: toolSpecs(registry) }),
      }),
    ),
    append(Tokenizer({ tokenizer })),
  )
  const said = [call({ n: 1 }), call({ n: 'many' }), right, wrong]
  const policy = scriptedPolicy({ answers: said.map((text) => [...tokenizer.encode(text + END_OF_TURN)]) })
  const collector = LLMCollector({ env, policy, key: keyFromSeed(1) })
  return orThrow(await collector.collect(collector.start)()).batch
}

type Batch = Awaited<ReturnType<typeof collect>> extends Owned<infer B> ? B : never

const config = tinyConfig({
  vocabularySize: tokenizer.vocabularySize,
  ...SMALL_DECODER,
})

/** A decoder that looks at no token but the one before: what attention finds is multiplied by 0. */
const deafParams = (): Owned<Params> =>
  own(
    scope(() => {
      const params = initialParams(config, keyFromSeed(2), 0.5)
      return Object.fromEntries(
        Object.entries(params).map(([name, value]) => [name, name.includes('o_proj') ? tf.zerosLike(value) : value]),
      )
    }),
  )

const rowsOf = (batch: Batch) => learnedRows(batch, 2)

/**
 * One step of plain descent on the rows of a batch: how far each parameter moved. The weights of
 * attention itself may learn from anything.
 */
const movedBy = <R, M extends { readonly loss: number }>(step: RowStep<Params, R, M>, rows: R) => {
  using params = deafParams()
  const { state, metrics } = step.update({ params: params.value, optimizer: {} }, rows, 1)
  using after = state
  const entries = Object.entries(after.value.params).filter(([name]) => !name.includes('self_attn'))
  return { loss: metrics.loss, params: Object.fromEntries(entries.map(([name, value]) => [name, valuesOf(value)])) }
}

describe('tokens of tools', () => {
  it('are appended as the template writes them, with the tools at the beginning, and are masked', async () => {
    using batch = await collect('zzz', 'tools')
    const [full, masks] = [rowsAt(batch.value, 'tokens', 'full'), rowsAt(batch.value, 'masks', 'assistant')]
    expect(get(batch.value, 'turn').items.toArray()).toEqual([0, 1, 0, 1])
    const texts = full.map((row) => tokenizer.decode(row, 'keep'))
    expect(texts[0]).toContain('"name": "whisper"')
    expect(texts[0]).toContain('"name": "calculator"')
    expect(texts[1]!.startsWith(`${texts[0]}\n<|im_start|>user\n<tool_response>\nzzz\n</tool_response>`)).toBe(true)
    expect(texts[3]).toMatch(/<tool_response>\nerror: invalid arguments[^<]*<\/tool_response>/)
    const learned = full.map((row, i) =>
      tokenizer.decode(
        row.filter((_, t) => masks[i]![t] === 1),
        'keep',
      ),
    )
    expect(learned).toEqual([call({ n: 1 }), right, call({ n: 'many' }), wrong].map((text) => text + END_OF_TURN))
    const advantages = rowsOf(batch.value).advantages as readonly ArrayLike<number>[] // one for each token
    expect(advantages.map((row) => Math.sign(row[0]!))).toEqual([1, 1, -1, -1])
  })

  it('move no gradient: loss and gradients do not depend on tool output, to the last bit', async () => {
    using one = await collect('zzz')
    using other = await collect('qqq')
    expect(rowsOf(one.value).prompts).not.toEqual(rowsOf(other.value).prompts)
    const learner = policyStep({ config, optimizer: descent, maxGradNorm: 1e9 })
    const [first, second] = [one, other].map(({ value }) => movedBy(learner, rowsOf(value)))
    expect(first).toEqual(second)
    expect(Object.values(first!.params).flat().every(Number.isFinite)).toBe(true)
    // The same rows, with every token learned: this is what a gradient of the tool's tokens looks
    // like.
    const imitator = sftStep({ config, optimizer: descent, maxGradNorm: 1e9 })
    const [third, fourth] = [one, other].map(({ value }) => {
      const rows = rowsAt(value, 'tokens', 'full').map((ids) => ({ ids, mask: ids.map(() => 1) }))
      return movedBy(imitator, maskedRows(rows))
    })
    expect(third).not.toEqual(fourth)
    for (const step of [learner, imitator]) step.release()
  })

  it('have a gradient of exactly 0 in the loss of whole conversations', async () => {
    using batch = await collect('zzz')
    const masks = rowsAt(batch.value, 'masks', 'assistant')
    const gradient = scope(() => {
      const mask = paddedTensor(masks)
      const old = tf.fill(mask.shape, -1)
      const advantages = tf.tensor2d([[1], [1], [-1], [-1]])
      const loss = GRPOLoss()
      const lossOf = (logProbs: tf.Tensor): tf.Scalar =>
        tf.sum(loss.apply({ logProbs }, { oldLogProbs: old, mask, advantages }).lossObjective) as tf.Scalar // a sum
      return valuesOf(tf.grad(lossOf)(tf.fill(mask.shape, -1)))
    })
    const width = Math.max(...masks.map((row) => row.length))
    for (const [i, row] of masks.entries()) {
      for (const [t, on] of row.entries()) expect([i, t, gradient[i * width + t] !== 0]).toEqual([i, t, on === 1])
    }
  })
})
