/** Programs that never call `selectBackend`, in child processes with the packages of each case. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { fakeBackend, type Packages, type ProgramResult, runProgram, withPackages } from '../../../test/kit/packages.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'

const path = useTemporaryFolder()

/** Prints whether the imports loaded the native library, then the active backend. */
const REPORT = `
import { createRequire } from 'node:module'
const native = () => Object.keys(createRequire(import.meta.url).cache).some((file) => file.includes('onnxruntime-node'))
const report = async (operation) => {
  const before = native()
  operation()
  const tf = await import('@tensorflow/tfjs-core')
  console.log(JSON.stringify({ before, active: tf.getBackend(), after: native() }))
}
`

const PROGRAMS = {
  'jit of the engine': `import { jit } from '@tandem-rl/tfjs-onnxruntime'
    import * as tf from '@tensorflow/tfjs-core'
    await report(() => jit((x) => tf.square(x))(tf.scalar(3)).dataSync())`,
  'a scope': `import { scope } from '@tandem-rl/tfjs-onnxruntime'
    import * as tf from '@tensorflow/tfjs-core'
    await report(() => scope(() => tf.square(3)).dataSync())`,
  'makeParams of the modules': `import { makeParams } from './src/doors/models.js'
    import * as tf from '@tensorflow/tfjs-core'
    await report(() => tf.square(makeParams(new Map([['a', { data: new Float32Array(2), shape: [2] }]])).a).dataSync())`,
  'a TensorDict of the root': `import { TD } from './src/index.js'
    import * as tf from '@tensorflow/tfjs-core'
    await report(() => TD.TensorDict({ a: tf.scalar(1) }, []))`,
  'a loss of the objectives': `import { maskedMean } from './src/data/tensorDict/masked.js'
    import './src/doors/objectives.js'
    import * as tf from '@tensorflow/tfjs-core'
    await report(() => maskedMean(tf.tensor1d([1]), tf.tensor1d([1])).dataSync())`,
  'text alone': `import { trainBytePairEncoding } from '@tandem-rl/text'
    trainBytePairEncoding(['a b'], { vocabularySize: 300, specialTokens: [] })
    console.log(JSON.stringify({ native: native() }))`,
} as const

let folders = 0

const run = (
  program: keyof typeof PROGRAMS,
  env: NodeJS.ProcessEnv = {},
  packages: Packages = {},
): Promise<ProgramResult> => {
  const folder = path(`program-${folders++}`)
  mkdirSync(folder)
  withPackages(folder, packages)
  writeFileSync(join(folder, 'program.js'), `${REPORT}${PROGRAMS[program]}`)
  return runProgram(folder, ['program.js'], env)
}

it.each([
  'jit of the engine',
  'a scope',
  'makeParams of the modules',
  'a TensorDict of the root',
  'a loss of the objectives',
] as const)('onnxruntime starts with the first operation: %s', async (program) => {
  const { stdout, stderr } = await run(program)
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual({ before: false, active: 'onnxruntime', after: true })
})

it('a program that computes nothing does not load the native library', async () => {
  expect(JSON.parse((await run('text alone')).stdout)).toEqual({ native: false })
})

it('TANDEM_BACKEND=cpu computes on cpu', async () => {
  const { stdout } = await run('a scope', { TANDEM_BACKEND: 'cpu' })
  expect(JSON.parse(stdout)).toMatchObject({ active: 'cpu', after: false })
})

it.each([
  ['wasm', "TANDEM_BACKEND is 'wasm': call `await selectBackend()`"],
  ['tensorflow', "TANDEM_BACKEND is 'tensorflow': call `await selectBackend()`"],
  ['tensorfow', "TANDEM_BACKEND is 'tensorfow'; expected one of"],
])('TANDEM_BACKEND=%s fails the first operation', async (name, reason) => {
  const { code, stdout, stderr } = await run('a scope', { TANDEM_BACKEND: name })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toContain(reason)
})

it('a package for GPUs that is installed and not used is warned about', async () => {
  const { stdout, stderr } = await run('a scope', {}, { '@tensorflow/tfjs-node-gpu': fakeBackend('tensorflow', 'gpu') })
  expect(JSON.parse(stdout)).toMatchObject({ active: 'onnxruntime' })
  expect(stderr).toContain('@tensorflow/tfjs-node-gpu is not used: call `await selectBackend()`')
})

it('without onnxruntime-node, tfjs computes on cpu and logs the reason', async () => {
  const { stdout, stderr } = await run('a scope', {}, { 'onnxruntime-node': undefined })
  expect(JSON.parse(stdout)).toMatchObject({ active: 'cpu' })
  expect(stderr).toContain('onnxruntime-node, an optional dependency, is not installed: npm install onnxruntime-node')
})
