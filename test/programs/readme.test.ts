/** The programs of the README run. `test/docs/readme.test.ts` checks that it shows them whole. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { compiled } from '../kit/compiled.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

/** Runs the JavaScript of a source and returns its output. */
const node = (source: string, ...args: readonly string[]): string =>
  execFileSync(process.execPath, [compiled(source), ...args], { encoding: 'utf8' })

describe('README', () => {
  it('shows a loop that learns: two steps of it run', () => {
    const output = node('examples/grpo.ts', '2')
    expect(output).toMatch(/^step 1: \d+ of 128 right\nstep 2: \d+ of 128 right\n$/)
  })

  it('shows a run that learns: two steps of it run, and go on where they stopped', () => {
    const run = (steps: number): string => node('examples/run.ts', String(steps), path('run'))
    expect(run(1)).toMatch(/^steps 1 to 1\n[\s\S]*^step 1 {2}reward \d[\s\S]*^finished after 1 step\n$/m)
    expect(run(2)).toMatch(/^steps 2 to 2\n[\s\S]*^step 2 {2}reward \d[\s\S]*^finished after 2 steps\n$/m)
  })

  it.each(['ownReward', 'ownAgent', 'multiTurn'])('shows a recipe that tandem train runs: %s', (name) => {
    const out = path(name)
    const limits = ['--steps', '1', '--prompts', '2', '--group', '2', '--eval-tasks', '2']
    node('src/cli/main.ts', 'train', `./examples/${name}.ts`, ...limits, '--out', out)
    expect(existsSync(join(out, 'report.html'))).toBe(true)
  })
})
