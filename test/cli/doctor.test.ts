/**
 * `tandem doctor` as a process of its own, with packages that work, break, crash, compute wrongly,
 * or are missing.
 */
import { mkdirSync, readFileSync } from 'node:fs'
import { BACKEND_CANDIDATES } from '@tandem-rl/tfjs-onnxruntime'
import { describe, expect, it } from 'vitest'
import type { DoctorReport } from '../../src/cli/doctor.js'
import { fakeBackend, type Packages, type ProgramResult, runProgram, withPackages } from '../kit/packages.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

let folders = 0

const doctor = (packages: Packages, ...flags: readonly string[]): Promise<ProgramResult> => {
  const folder = path(`doctor-${folders++}`)
  mkdirSync(folder)
  return runProgram(withPackages(folder, packages), ['src/cli/main.js', 'doctor', ...flags])
}

const reportOf = ({ stdout, stderr }: ProgramResult): DoctorReport => {
  expect(stdout, stderr).not.toBe('')
  return JSON.parse(stdout) as DoctorReport // the output of --json
}

const WRONG = `${fakeBackend('wasm')}
  const { kernelFunc } = tf.getKernel('BatchMatMul', 'wasm')
  tf.unregisterKernel('BatchMatMul', 'wasm')
  tf.registerKernel({ kernelName: 'BatchMatMul', backendName: 'wasm', kernelFunc: (args) => {
    const result = kernelFunc(args)
    args.backend.readSync(result.dataId)[0] += 1
    return result
  } })
`

describe('tandem doctor', () => {
  it('--json reports for each package whether it works, and survives one that ends its process', async () => {
    const packages = { '@tensorflow/tfjs-node': 'process.abort()', '@tensorflow/tfjs-backend-wasm': WRONG }
    const result = await doctor(packages, '--json', '--threads', '1')
    const { backends, works, node, cores, memory } = reportOf(result)
    expect(result).toMatchObject({ code: 0, stderr: '' })
    expect({ works, node }).toEqual({ works: true, node: process.version })
    expect(cores).toBeGreaterThan(0)
    expect(memory.totalBytes).toBeGreaterThan(memory.freeBytes)
    expect(backends.map(({ packageName, state }) => [packageName, state])).toEqual([
      ['onnxruntime-node', 'works'],
      ['@tensorflow/tfjs-node-gpu', 'not installed'],
      ['@tensorflow/tfjs-node', 'fails'],
      ['@tensorflow/tfjs-backend-wasm', 'wrong results'],
      ['@tensorflow/tfjs-backend-cpu', 'works'],
    ])
    const [onnxruntime, gpu, crashed, wrong, cpu] = backends
    expect(onnxruntime).toMatchObject({ isChosen: true, threads: 1, test: { product: 'right', gradient: 'right' } })
    expect(onnxruntime!.test!.gflops).toBeGreaterThan(0)
    expect(gpu).toMatchObject({
      version: null,
      remedy: expect.stringContaining('npm install @tensorflow/tfjs-node-gpu@'),
    })
    expect(crashed).toMatchObject({ version: '4.22.9', problem: expect.stringContaining('SIGABRT') })
    expect(wrong).toMatchObject({ isChosen: false, test: { product: 'wrong', gradient: 'wrong' } })
    expect(cpu).toMatchObject({ isChosen: false, threads: 1, remedy: null })
  })

  it('fails if the backend that is asked for does not work, and shows the others all the same', async () => {
    const result = await doctor({ '@tensorflow/tfjs-backend-wasm': WRONG }, '--backend', 'wasm')
    expect(result.code).toBe(1)
    expect(result.stderr).toBe('tandem: the wasm tensor backend does not work\n')
    expect(result.stdout).toMatch(/^\* wasm +@tensorflow\/tfjs-backend-wasm 4\.22\.9 +wrong results, 1 thread, /m)
    expect(result.stdout).toMatch(/^ {2}onnxruntime +onnxruntime-node [\d.]+ +works, \d+ threads?, [\d.]+ GFLOP\/s/m)
    expect(result.stdout).toMatch(/^ {4}to install: npm install @tensorflow\/tfjs-node@/m)
  })

  it('names for each package the version that the package of the backend asks for', async () => {
    const { dependencies, optionalDependencies, peerDependencies } = JSON.parse(
      readFileSync('packages/tfjs-onnxruntime/package.json', 'utf8'),
    ) as Readonly<
      Record<'dependencies' | 'optionalDependencies' | 'peerDependencies', Readonly<Record<string, string>>>
    >
    const source = readFileSync('src/cli/doctor.ts', 'utf8')
    for (const { packageName } of BACKEND_CANDIDATES) {
      const range = { ...dependencies, ...optionalDependencies, ...peerDependencies }[packageName]
      expect(source).toContain(`npm install ${packageName}@${range}'`)
    }
  })
})
