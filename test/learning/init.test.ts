/** A user's first steps: the packed package, a project of `tandem init`, its tests and its run. */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import type { RunSummary } from '../../src/run/metrics/records.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

/** Runs a program and returns its output. Throws with the output if it fails. */
const run = (program: string, args: readonly string[], cwd: string): string =>
  execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 900_000 })

describe('a project of tandem init, with the packed package', () => {
  it('passes its own tests, and learns', () => {
    run('npm', ['pack', '--pack-destination', path('.')], '.')
    const tarball = readdirSync(path('.')).find((name) => name.endsWith('.tgz'))!
    run(process.execPath, ['dist/cli/tandem.js', 'init', path('project')], '.')
    const file = path('project/package.json')
    writeFileSync(file, readFileSync(file, 'utf8').replace(/("tandem-rl": )"[^"]*"/, `$1"file:../${tarball}"`))
    run('npm', ['install', '--no-audit', '--no-fund'], path('project'))
    expect(run('npm', ['test'], path('project'))).toMatch(/passed/)
    run('npm', ['start', '--', '--out', 'runs/first', '--threads', '1'], path('project'))
    const text = readFileSync(path('project/runs/first/summary.json'), 'utf8')
    const { before, after } = (JSON.parse(text) as RunSummary).evaluated[0]! // written by the command
    expect(before.accuracy).toBeLessThan(0.3)
    expect(after.accuracy).toBeGreaterThan(0.8)
  })
})
