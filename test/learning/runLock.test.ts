import { describe, expect, it } from 'vitest'
import { contentsOf, THREADS, tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const at = useTemporaryFolder()

const FLAGS = [
  ...['--steps', '4', '--checkpoint-every', '1', '--eval-every', '4', '--eval-tasks', '8', '--json'],
  ...THREADS,
]

const STEP = /"type":"step","step":(\d+),/

describe('two processes and one run folder', () => {
  it('a second one is refused with exit code 1 and the way out, and the first ends as if alone', async () => {
    await tandemOk(['train', '--out', at('alone'), ...FLAGS], { cwd: at('.') })
    let second: ReturnType<typeof tandem> | undefined
    await tandemOk(['train', '--out', at('run'), ...FLAGS], {
      cwd: at('.'),
      onLine: (line) => {
        if (STEP.exec(line)?.[1] === '1') second = tandem(['train', '--resume', at('run'), '--json'], { cwd: at('.') })
        return undefined
      },
    })
    expect(await second).toMatchObject({ code: 1, stderr: expect.stringContaining('in use by process') })
    const [alone, run] = [
      contentsOf(at('alone/checkpoints/step-000004')),
      contentsOf(at('run/checkpoints/step-000004')),
    ]
    expect(run['model.safetensors']).toBe(alone['model.safetensors'])
  })
})
