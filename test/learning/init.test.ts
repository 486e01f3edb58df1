/** A user's first steps: the packed packages, a project of `tandem init`, its tests and its run. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { RunSummary } from '../../src/run/metrics/records.js'
import { environment, pack, type Tarballs } from '../kit/packed.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const env = await environment()

/** Runs a program and returns its output. Throws with the output if it fails. */
const run = (program: string, args: readonly string[], cwd: string): string =>
  execFileSync(program, args, { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 900_000 })

/** Lets a project depend on all packages of this repository as packed. */
const useTarballs = (file: string, tarballs: Tarballs): void => {
  const manifest = JSON.parse(readFileSync(file, 'utf8')) as Record<'dependencies' | 'devDependencies', object> // as written by `tandem init`
  const packed = [...tarballs].map(([name, tarball]) => [name, `file:${tarball}`] as const)
  const [dev, other] = [true, false].map((isDev) =>
    Object.fromEntries(packed.filter(([name]) => name in manifest.devDependencies === isDev)),
  )
  const { dependencies, devDependencies } = manifest
  const both = { dependencies: { ...dependencies, ...other }, devDependencies: { ...devDependencies, ...dev } }
  writeFileSync(file, JSON.stringify({ ...manifest, ...both }))
}

describe('a project of tandem init, with the packed packages', () => {
  it('passes its own tests, and learns', async () => {
    const tarballs = await pack(path('.'))
    run(process.execPath, ['dist/cli/tandem.js', 'init', path('project')], '.')
    useTarballs(path('project/package.json'), tarballs)
    run('npm', ['install', '--no-audit', '--no-fund'], path('project'))
    expect(run('npm', ['test'], path('project'))).toMatch(/passed/)
    run('npm', ['start', '--', '--out', 'runs/first', '--threads', '1'], path('project'))
    const text = readFileSync(path('project/runs/first/summary.json'), 'utf8')
    const { before, after } = (JSON.parse(text) as RunSummary).evaluated[0]! // written by the command
    expect(before.accuracy).toBeLessThan(0.3)
    expect(after.accuracy).toBeGreaterThan(0.8)
  })
})
