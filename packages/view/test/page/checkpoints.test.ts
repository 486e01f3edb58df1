/** Requests about checkpoints over HTTP, on real runs. */
import { readFileSync } from 'node:fs'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import type { NamedTensors } from '../../../../src/data/weights.js'
import { makeParams } from '../../../../src/modules/pretrained/pretrained.js'
import type { EvaluationRecord, StepRecord, TrajectoryRecord } from '../../../../src/run/metrics/records.js'
import { answeringModel, contentsOf, parseJsonLines } from '../../../../test/kit/runs.js'
import { linesOf, linesOfType, postLines } from '../../../../test/kit/viewLines.js'
import { useViewedRuns } from '../../../../test/kit/viewServer.js'
import { rolloutId } from '../../src/foreign/viewedTurn.js'
import { derivatives, tokenGradient } from '../../src/modelInfluence.js'
import type { ModelRequest } from '../../src/protocol.js'
import { exportedPage } from '../../src/server.js'

const SMALL = { steps: 6, prompts: 4, group: 4, trajectories: 16 }

const view = useViewedRuns({
  first: { ...SMALL, checkpointEvery: 2, keepMegabytes: 64, evalEvery: 2, evalTasks: 12 },
})

const post = (request: ModelRequest, body: object, init: RequestInit = {}) =>
  postLines({ origin: view.origin(), run: 'first', request }, body, init)

const ask = async (request: ModelRequest, body: object) => linesOf(await post(request, body))

const logged = <T>(name: string): readonly T[] =>
  parseJsonLines(readFileSync(`${view.path('first')}/${name}`, 'utf8')) as readonly T[] // written by the run

/** A rollout of step 3, which the checkpoint after step 2 sampled. */
const third = (): TrajectoryRecord =>
  logged<TrajectoryRecord>('trajectories.jsonl').find(
    ({ step, advantage, tokens }) => step === 3 && advantage !== 0 && tokens.length > 3,
  )!

const place = (token: number) => ({ rollout: rolloutId(third()), turn: 1, token })

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

describe('derivatives', () => {
  it('are the inner products of the gradients, by automatic differentiation', async () => {
    const model = await answeringModel()
    using params = own(scope(() => makeParams(model.arrays)))
    const prompt = [...model.text.tokenizer.encode('What is 1 + 1?')]
    const row = (reply: string) => ({ trajectory: reply, prompt, ids: [...model.text.tokenizer.encode(reply)] })
    const rows = ['<answer>2</answer>', '<answer>31'].map((reply) => ({ ...row(reply), advantages: [] }))
    const asked = { ...row('<answer>4'), temperature: 1 }
    using gradient = tokenGradient(model, params.value, asked)
    const product = (other: NamedTensors): number =>
      sum(
        Object.entries(gradient.value.grads).map(([name, each]) => {
          const [a, b] = [Array.from(each.dataSync()), other[name]!.dataSync()]
          return a.reduce((total, x, i) => total + x * b[i]!, 0)
        }),
      )
    const { rows: slopes, linearity } = derivatives(model, params.value, { request: asked, rows })
    expect(linearity).toBeCloseTo(1, 1)
    for (const [i, { ids }] of rows.entries())
      for (const [t] of ids.entries()) {
        using other = tokenGradient(model, params.value, { ...asked, ids: ids.slice(0, t + 1) })
        const expected = product(other.value.grads)
        expect(Math.abs(slopes[i]![t]! - expected)).toBeLessThan(0.02 * Math.abs(expected) + 0.002)
      }
  })
})

describe('requests about checkpoints', () => {
  it('give the recorded log-probability at the checkpoint that sampled the token, and others elsewhere', async () => {
    const lines = linesOfType(await ask('probability', place(2)), 'checkpoint')
    expect(lines.map(({ step }) => step)).toEqual([0, 2, 4, 6])
    const { logProbs, tokens } = third()
    expect(lines[1]?.logProb).toBeCloseTo(logProbs![2]!, 3)
    expect(lines[1]?.tokens.map(({ text }) => text)).toEqual(tokens.slice(0, 3))
    expect(new Set(lines.map(({ logProb }) => logProb)).size).toBe(4)
    expect(lines[1]?.prefixLogProb).toBeCloseTo(sum(logProbs!.slice(0, 3)), 3)
    for (const { top, logProb, rank } of lines)
      if (rank <= top.length) expect(top[rank - 1]?.logProb).toBeCloseTo(logProb, 5)
  })

  it('give the probability of any text', async () => {
    const lines = linesOfType(await ask('probability', { prompt: 'What is 1 + 1?', reply: '<answer>2' }), 'checkpoint')
    expect(lines.length).toBe(4)
    expect(lines[0]?.tokens.map(({ text }) => text).join('')).toBe('<answer>2')
    expect(lines[0]?.prefixLogProb).toBeCloseTo(sum(lines[0]!.tokens.map(({ logProb }) => logProb)), 5)
  })

  it('rank the rollouts of a step by what their gradients do to a token', async () => {
    const [line] = linesOfType(await ask('influence', { ...place(2), checkpoint: 2 }), 'influence')
    expect(line).toMatchObject({ step: 3, batch: 'sampled' })
    expect(line?.linearity).toBeGreaterThan(0.9)
    expect(line?.linearity).toBeLessThan(1.1)
    const sizes = line!.rollouts.map(({ influence }) => Math.abs(influence))
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a))
    expect(sum(line!.rollouts.map(({ share }) => Math.abs(share)))).toBeCloseTo(1, 3)
    expect(line!.rollouts.length).toBe(16)
    expect(line!.rollouts.filter(({ id }) => id !== null).length).toBe(8) // the log holds two of each group
    // A rollout's gradient points along that of its own tokens.
    const own = line!.rollouts.find(({ id }) => id === place(2).rollout)
    expect(Math.sign(own!.influence)).toBe(Math.sign(own!.advantage))
  })

  it('stream a chat, which repeats with its seed', async () => {
    const body = { checkpoint: 6, messages: [{ role: 'user', content: 'What is 1 + 2?' }], maxNewTokens: 8, seed: 3 }
    const said = async (more = {}) =>
      linesOfType(await ask('chat', { ...body, ...more }), 'token').map(({ token }) => token.text)
    const first = await said()
    expect(first.length).toBeGreaterThan(2)
    expect(await said()).toEqual(first)
    expect(await said({ checkpoint: 0, seed: 4 })).not.toEqual(first)
  })

  it('fork a rollout and go on in the environment, which gives rewards', async () => {
    const body = { ...place(2), checkpoint: 2, count: 6, maxNewTokens: 6, seed: 5 }
    const lines = await ask('fork', body)
    expect(linesOfType(lines, 'mode')).toEqual([{ type: 'mode', mode: 'environment', reason: null }])
    const forks = linesOfType(lines, 'completion')
    expect(forks.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4, 5])
    const prefix = third().tokens.slice(0, 2).join('')
    const recorded = logged<TrajectoryRecord>('trajectories.jsonl').filter(({ query }) => query === third().query)
    const known = new Map(recorded.map(({ tokens, reward }) => [tokens.join(''), reward]))
    for (const { turns, reward } of forks) {
      const text = turns[0]!.text
      expect(text.startsWith(prefix)).toBe(true)
      expect(reward).toBeCloseTo(known.get(text) ?? reward!, 5)
    }
    expect(new Set(forks.map(({ turns }) => turns[0]?.text)).size).toBeGreaterThan(1)
    expect(linesOfType(await ask('fork', body), 'completion')).toEqual(forks)
    const other = linesOfType(await ask('fork', { ...body, count: 1, replacement: '7' }), 'completion')
    expect(other[0]?.turns[0]?.text.startsWith(`${prefix}7`)).toBe(true)
  })

  it('compare two checkpoints on the same tasks', async () => {
    const lines = await ask('evaluate', { checkpoints: [0, 4] })
    const recorded = logged<EvaluationRecord>('metrics.jsonl').filter(({ type }) => type === 'evaluation')
    const scores = linesOfType(lines, 'scores')
    for (const { checkpoint, scores: found } of scores)
      expect(found).toEqual(recorded.find(({ step }) => step === checkpoint)?.scores)
    const [difference] = linesOfType(lines, 'difference')
    expect(difference?.tasks).toBe(12)
    expect(difference?.mean).toBeCloseTo(scores[1]!.scores.accuracy! - scores[0]!.scores.accuracy!, 6)
    expect(difference!.low!).toBeLessThanOrEqual(difference!.mean)
    const [same] = linesOfType(await ask('evaluate', { checkpoints: [4, 4], tasks: 5 }), 'difference')
    expect(same).toMatchObject({ tasks: 5, mean: 0, higher: 0, lower: 0, same: 5 })
  })

  it('repeat a step bit for bit, and with a setting changed', async () => {
    const [line] = linesOfType(
      await ask('replay', { checkpoint: 2, settings: { 'learner.learningRate': 0.05 } }),
      'record',
    )
    const { update, learningRate } = logged<StepRecord>('metrics.jsonl').find(
      ({ type, step }) => type === 'step' && step === 3,
    )!
    expect(line?.recorded).toMatchObject({ loss: update.loss, gradNorm: update.gradNorm, learningRate })
    expect(line?.repeated).toMatchObject(line!.recorded)
    expect(line?.changed).toMatchObject({ loss: update.loss, learningRate: 0.05 })
    expect(line!.changed.logProbChange!).toBeGreaterThan(2 * line!.repeated.logProbChange!)
    const [other] = linesOfType(
      await ask('replay', { checkpoint: 0, settings: { 'loss.algorithm': 'rloo' } }),
      'record',
    )
    expect(other?.step).toBe(1)
    expect(other?.changed.gradNorm).not.toBe(other?.repeated.gradNorm)
  })

  it('name what is missing', async () => {
    const reason = async (request: ModelRequest, body: object): Promise<unknown> =>
      JSON.parse((await (await post(request, body)).text()).trim().split('\n').at(-1)!).reason
    expect(await reason('chat', { checkpoint: 5, messages: [{ role: 'user', content: 'x' }] })).toContain('step-000005')
    expect(await reason('probability', place(99))).toContain('there is no token 99')
    expect(await reason('probability', { ...place(0), rollout: 'none' })).toBe("no rollout 'none'")
    expect(await reason('fork', { ...place(0), turn: 0, checkpoint: 2 })).toContain('turn 0')
    expect(await reason('replay', { checkpoint: 2, settings: { 'learner.rate': 1 } })).toContain(
      "unknown setting 'learner.rate'",
    )
  })

  it('are refused for other origins and for settings that are not of the update', async () => {
    const headers = { origin: 'http://evil.example', 'content-type': 'application/json' }
    expect((await post('probability', place(0), { headers })).status).toBe(403)
    expect((await post('replay', { checkpoint: 2, settings: { model: '/etc' } })).status).toBe(400)
  })

  it('end when the page goes away, and the next one is answered', async () => {
    const gone = new AbortController()
    const asked = await post(
      'chat',
      { checkpoint: 2, messages: [{ role: 'user', content: 'x' }], maxNewTokens: 2000 },
      { signal: gone.signal },
    )
    const reader = asked.body!.getReader()
    await reader.read()
    gone.abort()
    await reader.read().catch(() => undefined)
    expect(linesOfType(await ask('probability', place(0)), 'checkpoint').length).toBe(4)
  })

  it('are listed as features of the run, but not in an exported page', async () => {
    const live = await (await fetch(`${view.origin()}/api/runs/first`)).json()
    expect(live).toMatchObject({ features: expect.arrayContaining(['probability', 'influence', 'chat', 'fork']) })
    const options = { files: liveFiles, timers: liveTimers, folders: [view.path('first')] }
    const [, exported = ''] = /"features":\[([^\]]*)\]/.exec(await exportedPage(options)) ?? []
    expect(exported.split(',').sort()).toEqual(['"rescore"', '"write"'])
  })

  it('write nothing to the run folder', async () => {
    const saved = (): object =>
      Object.fromEntries(Object.entries(contentsOf(view.path('first'))).filter(([name]) => !name.startsWith('.view/')))
    const before = saved()
    await ask('fork', { ...place(1), checkpoint: 4, count: 1, maxNewTokens: 4 })
    await ask('evaluate', { checkpoints: [0, 2], tasks: 2 })
    await ask('replay', { checkpoint: 4, settings: {} })
    expect(saved()).toEqual(before)
  })
})
