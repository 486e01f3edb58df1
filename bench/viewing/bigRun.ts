/** A synthetic run with many rollouts. A real run with as many takes hours. */
import { once } from 'node:events'
import { createWriteStream, mkdirSync, writeFileSync } from 'node:fs'
import { keyFromSeed, uniforms } from '@tandem-rl/base'
import type { StepRecord, TrajectoryRecord } from '../../src/run/metrics/records.js'

const STEPS = 2000
const ROLLOUTS_PER_STEP = 100

const WORDS = [
  'the',
  ' train',
  ' leaves',
  ' at',
  ' 12',
  ' and',
  ' so',
  ' add',
  ' 7',
  ' to',
  ' get',
  '\n',
  ' we',
  ' have',
  '.',
]
const GROUP = 8

const random = uniforms(keyFromSeed(1), 4096)
let drawn = 0
const draw = (): number => random[drawn++ % random.length]!
const round = (x: number): number => Number(x.toFixed(4))

const rolloutOf = (step: number, i: number): TrajectoryRecord => {
  drawn = (step * 7919 + i * 104729) % random.length
  const tokens = Array.from({ length: 20 + Math.floor(40 * draw()) }, () => WORDS[Math.floor(draw() * WORDS.length)]!)
  const right = draw() < 0.2 + (0.7 * step) / STEPS ? 1 : 0
  const group = Math.floor(i / GROUP)
  return {
    ...{ format: 2, step, trajectoryId: `${step}:${i}`, turn: 0, groupId: `${step}:task-${group}` },
    query: `Tom has ${group + 3} apples and buys ${i + 2} more. How many apples does he have after step ${step}?`,
    answer: String(group + i + 5),
    tokens,
    logProbs: tokens.map(() => round(-3 * draw())),
    trainerLogProbs: 'equal',
    entropies: tokens.map(() => round(2 * draw())),
    reward: right + 0.1,
    parts: { success: right, rewardFormat: 0.1 },
    advantage: round(draw() - 0.5),
    ...{ stopReason: draw() < 0.05 ? 'length' : 'stop', policyVersion: step - 1 },
  }
}

const stepOf = (step: number, rollouts: readonly TrajectoryRecord[]): StepRecord => {
  const reward = rollouts.reduce((sum, each) => sum + each.reward, 0) / rollouts.length
  const tokens = rollouts.reduce((sum, each) => sum + each.tokens.length, 0)
  const update = { loss: round(draw()), gradNorm: round(draw()), tokens, entropy: 1, clipFraction: 0, maxLogProbGap: 0 }
  return {
    ...{ type: 'step', step, trajectories: rollouts.length, reward, parts: { success: reward - 0.1 } },
    ...{ sampling: null, correction: null, groupsUsed: Math.ceil(ROLLOUTS_PER_STEP / GROUP), groupsDropped: 0 },
    ...{ completionKL: null, klCoefficient: 0, learningRate: 1e-4, update, updates: [update], metrics: {} },
    ...{ overlap: null, memory: { residentBytes: 3e8, graphs: 4, graphBytes: 1e6 } },
    seconds: { generation: 1 + draw(), environment: draw(), training: 1 + draw(), weightSync: 0.01 },
  }
}

/**
 * Writes the run: 2,000 steps with 100 rollouts each, in groups of 8 and with 20 to 60 tokens. Every
 * call writes the same rollouts.
 */
export const writeBigRun = async (folder: string): Promise<void> => {
  mkdirSync(folder, { recursive: true })
  const settings = {
    steps: STEPS,
    model: 'synthetic',
    loss: { algorithm: 'grpo' },
    keep: { trajectories: ROLLOUTS_PER_STEP },
  }
  writeFileSync(
    `${folder}/config.json`,
    JSON.stringify({ format: 2, recipe: { name: 'synthetic', file: null }, settings, run: {} }),
  )
  const metrics = createWriteStream(`${folder}/metrics.jsonl`)
  const trajectories = createWriteStream(`${folder}/trajectories.jsonl`)
  for (let step = 1; step <= STEPS; step++) {
    const rollouts = Array.from({ length: ROLLOUTS_PER_STEP }, (_, i) => rolloutOf(step, i))
    metrics.write(`${JSON.stringify(stepOf(step, rollouts))}\n`)
    if (!trajectories.write(rollouts.map((each) => `${JSON.stringify(each)}\n`).join('')))
      await once(trajectories, 'drain')
  }
  for (const stream of [metrics, trajectories]) {
    stream.end()
    await once(stream, 'finish')
  }
}
