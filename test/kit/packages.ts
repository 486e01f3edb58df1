/**
 * The sources, as JavaScript, in a folder of their own, next to other packages than those of this
 * checkout.
 */
import { spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { PACKAGES } from '../../scripts/kit/workspace.js'
import { compiledFolder } from './compiled.js'

/** A package by name: the text of its main file, or nothing if it is to be missing. */
export type Packages = Readonly<Record<string, string | undefined>>

/** Entries of `node_modules`; those of a scope by their full names. */
const installed = (): readonly string[] =>
  readdirSync('node_modules')
    .filter((name) => !name.startsWith('.'))
    .flatMap((name) =>
      name.startsWith('@') ? readdirSync(join('node_modules', name)).map((inner) => `${name}/${inner}`) : [name],
    )

/** The packages of this repository and their folders. */
const OWN = new Map(PACKAGES.map((each) => [each.manifest.name, each.folder]))

/** Optional packages: a folder of `withPackages` has them only on request. */
const OPTIONAL = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node', '@tensorflow/tfjs-backend-wasm']

/**
 * Copies the sources to `folder`, with links to the packages of this checkout, except that
 * `packages` replaces some of them and the optional backends are missing.
 */
export const withPackages = (folder: string, packages: Packages): string => {
  for (const name of ['src', 'packages', 'package.json'])
    cpSync(join(compiledFolder(), name), join(folder, name), { recursive: true, verbatimSymlinks: true })
  cpSync('assets', join(folder, 'assets'), { recursive: true })
  for (const name of installed()) {
    if (name in packages || OPTIONAL.includes(name)) continue
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(OWN.get(name) === undefined ? resolve('node_modules', name) : resolve(folder, OWN.get(name)!), link)
  }
  for (const [name, main] of Object.entries(packages)) {
    if (main === undefined) continue
    const path = join(folder, 'node_modules', name)
    rmSync(path, { recursive: true, force: true })
    mkdirSync(path, { recursive: true })
    writeFileSync(join(path, 'package.json'), JSON.stringify({ name, version: '4.22.9', main: 'index.js' }))
    writeFileSync(join(path, 'index.js'), main)
  }
  return folder
}

/** A package that computes with the kernels of the cpu backend, under the name of another one. */
export const fakeBackend = (name: string, gpu: 'gpu' | 'no gpu' = 'no gpu'): string => `
  const tf = require('@tensorflow/tfjs-core')
  const { MathBackendCPU } = require('@tensorflow/tfjs-backend-cpu')
  tf.copyRegisteredKernels('cpu', '${name}')
  tf.registerBackend('${name}', () => Object.assign(new MathBackendCPU(), { isUsingGpuDevice: ${gpu === 'gpu'}, firstUse: false }))
`

/** The output of a program. */
export interface ProgramResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Runs a program in `folder` in a process of its own. The environment is this one's, changed by
 * `env`.
 */
export const runProgram = (
  folder: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<ProgramResult> =>
  new Promise((done, reject) => {
    const { TANDEM_BACKEND: _, TF_NUM_INTRAOP_THREADS: __, ...inherited } = process.env
    const running = spawn(process.execPath, args, {
      cwd: folder,
      env: { ...inherited, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let [stdout, stderr] = ['', '']
    running.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    running.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    running.on('error', reject)
    running.on('close', (code) => done({ code, stdout, stderr }))
  })

/**
 * Runs the text of a module next to the sources and the packages of this checkout, in a new folder
 * and process.
 */
export const runWithPackages = async (program: string): Promise<ProgramResult> => {
  const folder = mkdtempSync(join(tmpdir(), 'tandem-packages-'))
  try {
    return await runProgram(withPackages(folder, {}), ['--input-type=module', '--eval', program])
  } finally {
    rmSync(folder, { recursive: true })
  }
}
