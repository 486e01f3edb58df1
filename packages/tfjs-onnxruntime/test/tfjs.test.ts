/**
 * Compares the gradients and the cpu backend that the engine registers with those of
 * `@tensorflow/tfjs`.
 */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { gradientsModule } from '../../../scripts/kit/gradientsModule.js'
import { runWithPackages } from '../../../test/kit/packages.js'

/**
 * Runs `code` in a new process and returns the kernels that then have gradients, and one gradient.
 */
const registries = async (code: string): Promise<unknown> => {
  const result = await runWithPackages(`
    import * as tf from '@tensorflow/tfjs-core'
    ${code}
    const gradients = tf.getKernelsForBackend('cpu').map((kernel) => kernel.kernelName)
      .filter((name) => tf.getGradient(name) !== undefined)
    await tf.setBackend('cpu')
    const slope = tf.grad((x) => tf.sum(tf.tanh(tf.matMul(x, tf.transpose(x)))))(tf.tensor2d([[1, 2], [3, 4]]))
    console.log(JSON.stringify({ gradients, slope: Array.from(slope.dataSync()) }))`)
  expect(result.code, result.stderr).toBe(0)
  return JSON.parse(result.stdout)
}

const ENGINE = `await import('@tandem-rl/tfjs-onnxruntime')`
const UNION = `await import('@tensorflow/tfjs')`

describe('the engine and tfjs-core', () => {
  it('npm run make -- gradients writes the committed packages/tfjs-onnxruntime/assets/gradients.js', async () => {
    expect(readFileSync('packages/tfjs-onnxruntime/assets/gradients.js', 'utf8')).toBe(await gradientsModule())
  })

  it('the engine registers all gradients of @tensorflow/tfjs', async () => {
    const ours = await registries(ENGINE)
    expect(ours).toEqual(await registries(UNION))
    expect(ours).toHaveProperty('gradients', expect.arrayContaining(['BatchMatMul', 'Tanh', 'MaxPool']))
  })

  it('shares one engine with @tensorflow/tfjs, imported before or after it', async () => {
    const alone = await registries(ENGINE)
    expect(await registries(`${ENGINE}; ${UNION}`)).toEqual(alone)
    expect(await registries(`${UNION}; ${ENGINE}`)).toEqual(alone)
  })
})
