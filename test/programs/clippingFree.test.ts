/** A loss of a paper of 2026, added by the walk-through of CONTRIBUTING alone: this test, and one file. */
import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import * as tf from '@tensorflow/tfjs-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { expectForward, expectGradients } from '../kit/differentiable.js'
import { useEngine } from '../kit/engine.js'
import { parseJsonLines, SMALL_FLAGS, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

useEngine()

const path = useTemporaryFolder()

describe('the loss without clipping', () => {
  type Tensors = Readonly<Record<'advantages' | 'oldLogProbs' | 'mask', tf.Tensor>> & { readonly counts: object }
  let apply: (model: { readonly logProbs: tf.Tensor }, batch: Tensors) => { readonly loss: tf.Tensor }

  beforeAll(async () => {
    const index = pathToFileURL('src/index.ts').href
    const file = path('clippingFree.ts')
    writeFileSync(file, readFileSync('examples/clippingFree.ts', 'utf8').replace("'tandem-rl'", `'${index}'`))
    apply = (await import(pathToFileURL(file).href)).clippingFree.apply
  })

  const [advantages, oldLogProbs, mask] = [
    [1, -0.5, 2, 0.3, -1, 0.7],
    [-1, -0.4, -2, -0.1, -0.6, -1.5],
    [1, 1, 0, 1, 1, 1],
  ]
  const shape = [2, 3]
  const logProbs = { shape, data: [-0.8, -0.7, -1.9, -0.3, -0.2, -1.6], dtype: 'float32' } as const
  const operation = {
    inputs: [logProbs],
    call: ([given]: readonly tf.Tensor[]) =>
      apply(
        { logProbs: given! },
        {
          advantages: tf.tensor(advantages, shape),
          oldLogProbs: tf.tensor(oldLogProbs, shape),
          mask: tf.tensor(mask, shape),
          counts: { tokens: tf.scalar(5), completions: tf.scalar(2) },
        },
      ).loss,
    oracle: ([given]: readonly (readonly number[])[]) => [
      given!.reduce((sum, logProb, i) => {
        const [ratio, advantage] = [Math.exp(logProb - oldLogProbs[i]!), advantages[i]!]
        return sum + (mask[i]! / 5) * ((Math.abs(advantage) / 0.4) * (ratio - 1) ** 2 - ratio * advantage)
      }, 0),
    ],
    shape: [],
  }

  it('has the values and the gradients of its equation, in float64', () => {
    expectForward(operation)
    expectGradients(operation)
  })

  it('trains in a recipe, with one thread as with two', async () => {
    await writeAnsweringModel(path('model'))
    writeFileSync(path('cfpo.ts'), readFileSync('examples/clippingFree.ts', 'utf8'))
    const losses = async (workers: string): Promise<readonly number[]> => {
      const flags = ['./cfpo.ts', '--model', 'model', ...SMALL_FLAGS, '--workers', workers, '--out', workers, '--json']
      await tandemOk(['train', ...flags], { cwd: path('.') })
      return parseJsonLines(readFileSync(path(`${workers}/metrics.jsonl`), 'utf8'))
        .filter(({ type }) => type === 'step')
        .map(({ update }) => (update as { readonly loss: number }).loss) // a record of a step
    }
    const [one, two] = [await losses('1'), await losses('2')]
    expect(one.some((loss) => loss !== 0)).toBe(true)
    for (const [step, loss] of two.entries()) expect(loss, `step ${step + 1}`).toBeCloseTo(one[step]!, 4)
  })
})
