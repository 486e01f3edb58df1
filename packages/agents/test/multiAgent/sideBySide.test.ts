/**
 * Several policies write into one TensorDict: the first is played, the others are kept beside it.
 */
import { child, keyFromSeed, orThrow } from '@tandem-rl/base'
import { policyFailure, scriptedPolicy, scriptedTextPolicy } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { data, type Ragged, ragged, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { GSM8KEnv } from '../../../../src/envs/gsm8kEnv.js'
import { TemplateTransform } from '../../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { loadPretrained, makeParams } from '../../../../src/modules/pretrained/pretrained.js'
import { TransformersWrapper } from '../../../../src/modules/transformersWrapper.js'
import { tasks } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { sideBySide } from '../../src/multiAgent/sideBySide.js'

useEngine()

const key = keyFromSeed(5)

const model = async () => {
  const { config, arrays, text } = await rightOf(loadPretrained('embedded'))
  const options = { config, sampling: { maxNewTokens: 8 } }
  const policy = scope(() => TransformersWrapper({ ...options, params: makeParams(arrays) }))
  const env = pipe(
    GSM8KEnv({ source: tasks(2), prompts: 2 }),
    append(TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    append(Tokenizer({ tokenizer: text.tokenizer })),
  )
  return { policy, env }
}

const prompt = TensorDict({ tokens: { prompt: ragged('int32', [[1, 2]]), spans: data([[]]) } }, [1])

describe('sideBySide', () => {
  it('writes two models into the rows of one batch, of which the first is played as it is alone', async () => {
    const { policy, env } = await model()
    const both = sideBySide(policy, { greedy: policy.withSampling({ temperature: 0 }) })
    const alone = LLMCollector({ env, policy, key })
    const beside = LLMCollector({ env, policy: both, key })
    using played = orThrow(await alone.collect(alone.start)()).batch
    using collected = orThrow(await beside.collect(beside.start)()).batch
    const batch = collected.value
    const responses = raggedRows(get(batch, 'tokens', 'response'))
    expect(responses).toEqual(raggedRows(get(played.value, 'tokens', 'response')))
    const others = get(batch, 'greedy', 'tokens', 'response')
    expectTypeOf(others).toEqualTypeOf<Ragged<'int32'>>()
    expect(raggedRows(others)).not.toEqual(responses)
    const logProbs = raggedRows(get(batch, 'greedy', 'logProbs', 'response'))
    expect(logProbs.map(({ length }) => length)).toEqual(raggedRows(others).map(({ length }) => length))
    expect(get(batch, 'greedy', 'sampling').items.get(0)).toMatchObject({ temperature: 0 })
    policy.release()
  })

  it('asks each policy with the state, and all but the first with a key of its own name', async () => {
    const [first, teacher] = [scriptedPolicy({ answers: [[3]] }), scriptedPolicy({ answers: [[4, 5]] })]
    const action = await rightOf(sideBySide(first, { teacher }).act(prompt, key))
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([[3]])
    expect(raggedRows(get(action, 'teacher', 'tokens', 'response'))).toEqual([[4, 5]])
    expect(first.calls()).toEqual([{ state: prompt, key }])
    expect(teacher.calls()).toEqual([{ state: prompt, key: child(key, 'teacher') }])
  })

  it('reads the states of all: a policy of text beside one of tokens asks for both', async () => {
    const both = sideBySide(scriptedPolicy({ answers: [[3]] }), { writer: scriptedTextPolicy({ answers: ['four'] }) })
    const state = TensorDict({ ...prompt.entries.toObject(), text: { prompt: data(['2 + 2']) } }, [1])
    // @ts-expect-error the state has no text
    both.act(prompt, key)
    const action = await rightOf(both.act(state as never, key)) // `entries` has no types
    expect(get(action, 'writer', 'text', 'response').items.toArray()).toEqual(['four'])
  })

  it('fails as the first policy that fails, and frees what the others wrote', async () => {
    const failing = scriptedPolicy({ answers: [], faults: () => ({ _tag: 'Fail', failure: policyFailure('no') }) })
    const good = () => scriptedPolicy({ answers: [[3]] })
    expect((await leftOf(sideBySide(good(), { a: good(), b: failing }).act(prompt, key))).reason).toContain('no')
    expect((await leftOf(sideBySide(failing, { a: good() }).act(prompt, key))).reason).toContain('no')
  })

  it('refuses a name that the first policy writes itself', async () => {
    const good = () => scriptedPolicy({ answers: [[3]] })
    const { reason, kind } = await leftOf(sideBySide(good(), { tokens: good() }).act(prompt, key))
    expect([kind, reason]).toEqual(['asked', expect.stringContaining('the first policy already writes tokens')])
  })
})
