/** Small run folders that are written by hand, for readers of runs. */
import { mkdirSync, writeFileSync } from 'node:fs'

/** Writes a run of one step with a learning rate, a reward and one rollout with the given query. */
export const writeRun = (
  folder: string,
  { learningRate, reward, query = 'one' }: { learningRate: number; reward: number; query?: string },
): void => {
  mkdirSync(folder, { recursive: true })
  const put = (name: string, value: object): void => writeFileSync(`${folder}/${name}`, `${JSON.stringify(value)}\n`)
  put('config.json', { format: 2, recipe: null, settings: { steps: 1, learner: { learningRate } }, run: {} })
  put('metrics.jsonl', {
    ...{ type: 'step', step: 1, trajectories: 1, reward, parts: {}, update: { loss: 0.5, gradNorm: 1 }, updates: [] },
    ...{ sampling: null, overlap: null, memory: {}, groupsUsed: 1, groupsDropped: 0, metrics: {} },
    seconds: { generation: 1, environment: 0, training: 1, weightSync: 0 },
  })
  put('trajectories.jsonl', {
    ...{ step: 1, trajectoryId: 't0', turn: 0, groupId: 'g0', query, answer: null },
    ...{ tokens: ['a', 'b'], logProbs: [-0.5, -0.25], reward, advantage: null, stopReason: 'stop', policyVersion: 0 },
  })
  put('summary.json', { status: 'finished' })
}
