/** The programs of the README run. `test/docs/readme.test.ts` checks that it shows them whole. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

describe('README', () => {
  it('shows a loop that learns: two steps of it run', () => {
    const output = execFileSync(process.execPath, ['--import', 'tsx', 'examples/grpo.ts', '2'], { encoding: 'utf8' })
    expect(output).toMatch(/^step 1: \d+ of 128 right\nstep 2: \d+ of 128 right\n$/)
  })

  it('shows a run that learns: two steps of it run, and go on where they stopped', () => {
    const run = (steps: number): string =>
      execFileSync(process.execPath, ['--import', 'tsx', 'examples/run.ts', String(steps), path('run')], {
        encoding: 'utf8',
      })
    expect(run(1)).toMatch(/^steps 1 to 1\n[\s\S]*^step 1 {2}reward \d[\s\S]*^finished after 1 steps\n$/m)
    expect(run(2)).toMatch(/^steps 2 to 2\n[\s\S]*^step 2 {2}reward \d[\s\S]*^finished after 2 steps\n$/m)
  })

  it.each(['ownReward', 'ownAgent', 'multiTurn'])('shows a recipe that tandem train runs: %s', (name) => {
    const out = path(name)
    const limits = ['--steps', '1', '--prompts', '2', '--group', '2', '--eval-tasks', '2']
    const args = ['--import', 'tsx', 'src/cli/main.ts', 'train', `./examples/${name}.ts`, ...limits, '--out', out]
    execFileSync(process.execPath, args, { encoding: 'utf8' })
    expect(existsSync(join(out, 'report.html'))).toBe(true)
  })
})
