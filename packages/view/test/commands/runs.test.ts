/** `tandem runs` and `tandem compare`, over run folders written by hand. */
import { describe, expect, it } from 'vitest'
import { tandem, tandemOk, useTemporaryFolder } from '../../../../test/kit/runs.js'
import { writeRun } from '../../../../test/kit/writtenRun.js'

const path = useTemporaryFolder()
const cwd = path('.')
writeRun(path('runs/first'), { learningRate: 0.1, reward: 0.25 })
writeRun(path('runs/second'), { learningRate: 0.2, reward: 0.75 })

describe('tandem runs', () => {
  it('lists runs as a table and as lines of JSON', async () => {
    const { stdout } = await tandemOk(['runs'], { cwd })
    expect(stdout).toMatch(/^run +state +step +reward/)
    expect(stdout).toMatch(/first +finished +1\/1 +0\.25/)
    const { stdout: json } = await tandemOk(['runs', 'runs/second', '--json'], { cwd })
    expect(JSON.parse(json)).toMatchObject({ id: 'second', state: 'finished', last: { reward: 0.75 } })
  })

  it('reports a folder without runs', async () => {
    const { code, stderr } = await tandem(['runs', 'nothing'], { cwd })
    expect([code, stderr]).toEqual([1, 'tandem: there are no runs in nothing\n'])
  })
})

describe('tandem compare', () => {
  it('prints the settings that differ and the chosen metrics', async () => {
    const { stdout } = await tandemOk(['compare', 'runs', '--names', 'reward'], { cwd })
    expect(stdout.split('\n').map((line) => line.split(/ {2,}/))).toEqual([
      ['setting', 'first', 'second'],
      ['learner.learningRate', '0.1', '0.2'],
      [''],
      ['metric', 'first', 'second'],
      ['reward', '0.25', '0.75'],
      [''],
    ])
  })

  it('reports a single run', async () => {
    const { code, stderr } = await tandem(['compare', 'runs/first'], { cwd })
    expect([code, stderr]).toEqual([1, 'tandem: compare needs 2 to 8 runs, got 1 in runs/first\n'])
  })
})
