/**
 * Which backend is chosen, with packages that are there, missing, broken, with a GPU and without.
 * Each choice is made in a process of its own.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { fakeBackend, type Packages, runProgram, withPackages } from '../../../test/kit/packages.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { BACKEND_CANDIDATES, BACKENDS, selectBackend } from '../src/select.js'

const path = useTemporaryFolder()

const GPU = '@tensorflow/tfjs-node-gpu'
const CPU_NODE = '@tensorflow/tfjs-node'
const WASM = '@tensorflow/tfjs-backend-wasm'
const ORT = 'onnxruntime-node'

const PROGRAM = `
import * as tf from '@tensorflow/tfjs-core'
import { selectBackend } from './packages/tfjs-onnxruntime/src/select.js'
import { engineReport } from './packages/tfjs-onnxruntime/src/report.js'
process.on('unhandledRejection', () => undefined)
const count = () => process.listenerCount('uncaughtException') + process.listenerCount('unhandledRejection')
const before = count()
try {
  const selected = await selectBackend(JSON.parse(process.argv[2]))
  const gradient = tf.grad((x) => tf.sum(tf.gather(x, tf.tensor1d([1, 1], 'int32'))))(tf.tensor1d([1, 2, 3]))
  const report = engineReport()
  console.log(JSON.stringify({
    selected, active: tf.getBackend(), gradient: [...gradient.dataSync()], threads: report.threads,
    fallbacks: report.fallbacks, handlers: count() - before,
  }))
} catch (error) {
  console.log(JSON.stringify({ name: error.name, message: error.message, attempts: error.attempts }))
}
`

interface Outcome {
  readonly selected?: { readonly packageName: string; readonly attempts: readonly { readonly problem: string }[] }
  readonly active?: string
  readonly gradient?: readonly number[]
  readonly threads?: number | null
  readonly fallbacks?: Readonly<Record<string, number>>
  readonly handlers?: number
  readonly name?: string
  readonly message?: string
}

let folders = 0

/** Runs `selectBackend(options)` with `packages` installed. */
const choose = async (packages: Packages, options: object = {}, env: NodeJS.ProcessEnv = {}): Promise<Outcome> => {
  const folder = path(`choice-${folders++}`)
  mkdirSync(folder)
  withPackages(folder, packages)
  writeFileSync(join(folder, 'choose.js'), PROGRAM)
  const { stdout, stderr } = await runProgram(folder, ['choose.js', JSON.stringify(options)], env)
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Outcome // the last line is the program's
}

const everything: Packages = {
  [GPU]: fakeBackend('tensorflow', 'gpu'),
  [CPU_NODE]: fakeBackend('tensorflow'),
  [WASM]: fakeBackend('wasm'),
}

describe('without being asked for one, the backend is', () => {
  it.each([
    ['tfjs-node-gpu, where it finds a GPU', everything, GPU, 'tensorflow'],
    [
      'onnxruntime, where tfjs-node-gpu finds no GPU',
      { ...everything, [GPU]: fakeBackend('tensorflow') },
      ORT,
      'onnxruntime',
    ],
    ['onnxruntime, though tfjs-node loads', { [CPU_NODE]: fakeBackend('tensorflow') }, ORT, 'onnxruntime'],
    [
      'tfjs-node, where there is no onnxruntime',
      { ...everything, [GPU]: undefined, [ORT]: undefined },
      CPU_NODE,
      'tensorflow',
    ],
    ['wasm, where that is all there is', { [WASM]: fakeBackend('wasm'), [ORT]: undefined }, WASM, 'wasm'],
    ['cpu, where there is nothing else', { [ORT]: undefined }, '@tensorflow/tfjs-backend-cpu', 'cpu'],
    ['onnxruntime, where tfjs-node-gpu throws', { [GPU]: 'throw new Error("no library\\nstack")' }, ORT, 'onnxruntime'],
  ])('%s', async (_, packages, packageName, active) => {
    const outcome = await choose(packages)
    expect(outcome.selected, outcome.message).toMatchObject({ packageName })
    expect(outcome).toMatchObject({ active, gradient: [0, 2, 0] })
  })

  it('told with the reasons why better ones were not taken', async () => {
    const { selected } = await choose({ [GPU]: fakeBackend('tensorflow'), [ORT]: undefined, [CPU_NODE]: 'throw 1' })
    expect(selected).toMatchObject({ packageName: GPU })
    expect(selected?.attempts.map(({ problem }) => problem)).toEqual([
      'loads, but finds no GPU',
      expect.stringContaining(ORT),
    ])
  })
})

describe('a backend that is asked for', () => {
  it.each([
    ['by TANDEM_BACKEND', {}, { TANDEM_BACKEND: 'tensorflow' }],
    ['by an option, against TANDEM_BACKEND', { backend: 'tensorflow' }, { TANDEM_BACKEND: 'cpu' }],
  ])('%s is taken', async (_, options, env) => {
    expect(await choose({ [CPU_NODE]: fakeBackend('tensorflow') }, options, env)).toMatchObject({
      active: 'tensorflow',
      selected: { packageName: CPU_NODE },
    })
  })

  it('is not replaced by another one', async () => {
    const { name, message } = await choose({}, { backend: 'tensorflow' })
    expect(name).toBe('NoBackend')
    for (const packageName of [GPU, CPU_NODE]) expect(message).toContain(packageName)
    expect(message).not.toContain('onnxruntime (onnxruntime-node)')
  })

  it('by a name that TANDEM_BACKEND does not know is refused', async () => {
    vi.stubEnv('TANDEM_BACKEND', 'tensorfow')
    await expect(selectBackend()).rejects.toThrow(new RegExp(`'tensorfow'; expected one of ${BACKENDS.join(', ')}`))
    vi.unstubAllEnvs()
  })

  it('from a package that does not provide it is refused', async () => {
    await expect(selectBackend({ backend: 'wasm', packageName: CPU_NODE })).rejects.toThrow(RangeError)
  })

  it('from one of its packages comes from no other, with the threads that are asked for', async () => {
    const outcome = await choose(everything, { backend: 'tensorflow', packageName: CPU_NODE, threads: 3 })
    expect(outcome).toMatchObject({ selected: { packageName: CPU_NODE }, threads: 3 })
  })

  it('gets no other threads than the variable of TensorFlow says', async () => {
    const set = { TF_NUM_INTRAOP_THREADS: '5' }
    expect(await choose(everything, { backend: 'tensorflow', threads: 3 }, set)).toMatchObject({ threads: 5 })
  })
})

describe('the wasm backend', () => {
  it('borrows the kernels that it lacks from cpu, counts their calls, and leaves no handler of errors behind', async () => {
    const lacking = `${fakeBackend('wasm')}
      tf.unregisterKernel('UnsortedSegmentSum', 'wasm')
      for (const event of ['uncaughtException', 'unhandledRejection']) process.on(event, (error) => { throw error })
    `
    expect(await choose({ [WASM]: lacking }, { backend: 'wasm' })).toMatchObject({
      active: 'wasm',
      gradient: [0, 2, 0],
      fallbacks: { UnsortedSegmentSum: 1 },
      handlers: 0,
    })
  })
})

it('every package is a candidate once', () => {
  const names = BACKEND_CANDIDATES.map(({ packageName }) => packageName)
  expect(names).toEqual([...new Set(names)])
  expect(names).toHaveLength(5)
})
