/** The pass of the reference model: its time is a phase, and it can be skipped at coefficient 0. */
import { capture } from '@tandem-rl/serve'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { LogProbModel } from '../../src/data/policy.js'
import { ragged } from '../../src/data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import * as T from '../../src/index.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { runReference, timedModel } from '../../src/run/define/runReference.js'
import type { StepRecord } from '../../src/run/metrics/records.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { type Flags, smallSettings, useTemporaryFolder } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const source = T.taskList(
  'letters',
  Array.from({ length: 8 }, (_, i) => ({ query: `letter ${i}`, answer: 'a' })),
)
const settingsOf = (flags: Flags) => smallSettings('embedded', { steps: 1, maxNewTokens: 6, ...flags })

/** The events of a run, and the entries of its batches that a reference adds. */
const played = async (name: string, made: T.AnyRun) => {
  const added: string[] = []
  const advantage: T.AnyRun['advantage'] = (batch) => {
    const names = ['refLogProbs', 'klPenalty'].filter((entry) => find(batch as TensorDict, ['next', entry]))
    added.push(...names)
    return made.advantage(batch)
  }
  const events: RunEvent[] = []
  for await (const event of T.train({ ...made, advantage }, { steps: 1, store: T.runFolder(path(name)) }))
    events.push(event)
  const step = events.find((event): event is StepRecord & RunEvent => event.type === 'step')!
  const end = events.find((event) => event.type === 'end')!
  return { step, summary: end.summary, added }
}

const ofEnvironment = async (name: string, flags: Flags = {}) => {
  const env = (tasks: T.TaskContext) =>
    T.MultiTurnEnv({
      ...{ source, maxTurns: 1, ...tasks },
      reply: ({ answer }) => ({ done: true, reward: answer.length / 100 }),
    })
  return played(name, await T.defineRun(T.grpoParts(settingsOf(flags), { model: await smallModel(), env })))
}

const ofAgent = async (name: string, flags: Flags = {}) => {
  const agent = capture({
    run: async (task: { readonly query: string }, { baseUrl, apiKey }) => {
      const body = JSON.stringify({ model: 'policy', messages: [{ role: 'user', content: task.query }] })
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
      await fetch(`${baseUrl}/chat/completions`, { method: 'POST', body, headers })
      return 'done'
    },
  })
  const parts = { model: await smallModel(), agent, tasks: source, reward: () => 1 }
  return played(name, await T.defineRun(T.grpoParts(settingsOf(flags), parts)))
}

describe.each([
  ['an environment', ofEnvironment],
  ['an agent', ofAgent],
])('a run of %s with a KL coefficient of 0', (kind, run) => {
  it('has the time of the reference model as a phase of its own', async () => {
    const { step, summary, added } = await run(`${kind} measured`, { klAtZero: 'measure' })
    expect(step.seconds.reference).toBeGreaterThan(0)
    expect(summary.seconds.reference).toBe(step.seconds.reference)
    expect(step.update.klToRef).toBeTypeOf('number')
    expect(added).toEqual(['refLogProbs', 'klPenalty'])
  })

  it('does without the reference model where the KL is skipped', async () => {
    const { step, summary, added } = await run(`${kind} skipped`, { klAtZero: 'skip' })
    expect([step.seconds, summary.seconds].map((seconds) => 'reference' in seconds)).toEqual([false, false])
    expect(step.update.klToRef).toBeNull()
    expect([step.completionKL, added]).toEqual([null, []])
  })
})

describe('a run that measures the KL at coefficient 0', () => {
  it('has phases that add up to no more than its time', async () => {
    const { summary } = await ofEnvironment('sum')
    const phases = Object.values(summary.seconds).reduce((sum, each) => sum + each, 0)
    expect(phases).toBeLessThanOrEqual(summary.secondsTotal)
  })
})

describe('a run that skips the KL at coefficient 0', () => {
  it('has the rewards and the loss of one that measures it', async () => {
    const [measured, skipped] = [await ofEnvironment('with'), await ofEnvironment('without', { klAtZero: 'skip' })]
    expect(skipped.step.reward).toBe(measured.step.reward)
    expect(skipped.step.update.loss).toBe(measured.step.update.loss)
  })

  it('has no KL term in the loss', async () => {
    const { step } = await ofEnvironment('in the loss', { klAtZero: 'skip', klIn: 'loss' })
    expect(step.update.klToRef).toBeNull()
  })

  it('measures it with another coefficient', async () => {
    const { step } = await ofEnvironment('weighted', { klAtZero: 'skip', klCoefficient: 0.1 })
    expect(step.seconds.reference).toBeGreaterThan(0)
  })

  it('refuses a loss that reads the reference', () => {
    const model: LogProbModel = { name: 'none', score: () => async () => E.right(ragged('float32', [])) }
    const loss = policyLoss({ kl: [{ to: 'reference', coefficient: 0.1 }] })
    const settings = settingsOf({ klAtZero: 'skip' })
    expect(() => runReference(settings, { loss, model })).toThrow('kl.atZero: ')
    expect(runReference(settings, { loss: policyLoss(), model })).toEqual({ part: {} })
  })
})

describe('the time of a reference model', () => {
  const rows = ragged('int32', [])

  it('counts calls at the same time once, failed ones too, and the time between calls never', async () => {
    let now = 0
    const ends: ((failure?: Error) => void)[] = []
    const score: LogProbModel['score'] = () => () =>
      new Promise((resolve, reject) => {
        ends.push((failure) => (failure ? reject(failure) : resolve(E.right(ragged('float32', [])))))
      })
    const { model, seconds } = timedModel({ name: 'slow', score }, () => now)
    const first = model.score(rows, rows, 1)()
    now = 1000
    const second = model.score(rows, rows, 1)()
    now = 3000
    ends[0]!()
    await first
    now = 4000
    ends[1]!(new Error('it broke'))
    await expect(second).rejects.toThrow('it broke')
    now = 9000
    expect(seconds()).toBe(4)
  })
})
