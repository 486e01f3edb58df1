/** `tandem bench` in a child process. */
import { describe, expect, it } from 'vitest'
import { parseJsonLines, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()

describe('tandem bench', () => {
  it('measures so many steps, and prints one line of JSON', async () => {
    await writeAnsweringModel(path('model'))
    const flags = ['--model', 'model', '--prompts', '2', '--group', '2', '--max-new-tokens', '8', '--threads', '1']
    const { stdout } = await tandemOk(['bench', 'wordProblems', ...flags, '--measured', '3'], { cwd: path('.') })
    const [line, ...rest] = parseJsonLines(stdout)
    expect(rest).toEqual([])
    expect(line).toMatchObject({ recipe: 'wordProblems', steps: 3, cpu: expect.any(String) })
    const { median, least, most } = line!.secondsPerStep as Readonly<Record<string, number>> // as the command writes it
    expect([least! > 0, least! <= median!, median! <= most!]).toEqual([true, true, true])
  })
})
