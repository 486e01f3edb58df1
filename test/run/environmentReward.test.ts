/** The signal of groups: the environment's reward, before length and KL penalties. */
import { capture } from '@tandem-rl/serve'
import { describe, expect, it } from 'vitest'
import * as T from '../../src/index.js'
import type { StepRecord } from '../../src/run/metrics/records.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'
import { type Flags, smallSettings, useTemporaryFolder } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const source = T.taskList(
  'letters',
  Array.from({ length: 40 }, (_, i) => ({ query: `letter ${i}`, answer: 'a' })),
)

const share = (answer: string): number => (answer.split('e').length - 1) / Math.max(answer.length, 1)

type Reply = (scene: { readonly answer: string }) => { readonly done: true; readonly reward: number }

const settingsOf = (flags: Flags) =>
  smallSettings('embedded', { prompts: 4, group: 4, maxNewTokens: 12, dynamicSampling: 3, ...flags })

const firstStep = async (name: string, run: T.AnyRun): Promise<StepRecord> => {
  for await (const event of T.train(run, { steps: 1, store: T.runFolder(path(name)) }))
    if (event.type === 'step') return event
  throw new Error('the run had no step')
}

const stepOf = async (name: string, flags: Flags, reply: Reply): Promise<StepRecord> => {
  const env = (tasks: T.TaskContext) => T.MultiTurnEnv({ source, ...tasks, maxTurns: 1, reply })
  return firstStep(name, await T.defineRun(T.grpoParts(settingsOf(flags), { model: await smallModel(), env })))
}

const agentStepOf = async (name: string, flags: Flags, reward: () => number): Promise<StepRecord> => {
  const agent = capture({
    run: async (task: { readonly query: string }, { baseUrl, apiKey }) => {
      const body = JSON.stringify({ model: 'policy', messages: [{ role: 'user', content: task.query }] })
      const headers = { 'content-type': 'application/json', authorization: `Bearer ${apiKey}` }
      await fetch(`${baseUrl}/chat/completions`, { method: 'POST', body, headers })
      return 'done'
    },
  })
  return firstStep(
    name,
    await T.defineRun(T.grpoParts(settingsOf(flags), { model: await smallModel(), agent, tasks: source, reward })),
  )
}

/** Penalties that differ between the completions of a group. */
const PENALTIES = { klCoefficient: 0.5, klIn: 'reward', overlongCache: 12, overlongFactor: 2 }

describe('the signal of a group', () => {
  it('is the reward where no trajectory succeeds', async () => {
    const { sampling, groupsWithoutSignal } = await stepOf('shaped', {}, ({ answer }) => ({
      done: true,
      reward: share(answer),
    }))
    expect([sampling!.rounds, sampling!.withoutSignal, groupsWithoutSignal]).toEqual([1, 0, 0])
  })

  it('is without length and KL penalties', async () => {
    const step = await stepOf('penalized', PENALTIES, () => ({ done: true, reward: 1 }))
    expect(step.sampling).toMatchObject({ rounds: 3, groups: 12, withoutSignal: 12 })
    expect(step.groupsWithoutSignal).toBe(4)
    expect(step.reward).toBeLessThan(1)
  })

  it('is without KL penalties for agents', async () => {
    const step = await agentStepOf('agent', { klCoefficient: 0.5, klIn: 'reward' }, () => 1)
    expect(step.sampling).toMatchObject({ rounds: 3, withoutSignal: 12 })
    expect(step.groupsWithoutSignal).toBe(4)
  })
})
