/** `tandem train --resume` and `tandem eval` of a run whose rows or recipe have changed. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, expect, it } from 'vitest'
import {
  gsm8kLines,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
})

const resume = (run: string, steps: number, ...more: readonly string[]) => [
  ...['train', '--resume', run, '--steps', String(steps), '--threads', '1'],
  ...more,
]

it('refuses changed rows, continues with --accept-changes and an alarm, and eval warns of them', async () => {
  writeFileSync(path('data.jsonl'), gsm8kLines(20))
  const flags = ['--model', 'model', ...SMALL_FLAGS, '--steps', '2', '--dataset', 'data.jsonl', '--out', 'run']
  await tandemOk(['train', ...flags], { cwd })
  writeFileSync(path('data.jsonl'), gsm8kLines(5))
  const refused = await tandem(resume('run', 3), { cwd })
  expect(refused.code).toBe(1)
  expect(refused.stderr).toMatch(
    /have changed since its last session: rows of \S+data\.jsonl; rows of \S+ \(held out\)\. .*--accept-changes/,
  )
  expect(refused.stderr).not.toContain('resume with')
  expect((await tandemOk(['eval', 'run', '--threads', '1'], { cwd })).stderr).toContain(
    `warning: changed since the run: rows of ${path('data.jsonl')}; rows of ${path('data.jsonl')} (held out)`,
  )
  const { stdout } = await tandemOk(resume('run', 3, '--accept-changes', '--json'), { cwd })
  const alarms = parseJsonLines(stdout).filter(({ type }) => type === 'alarm')
  expect(alarms).toMatchObject([{ alarm: 'changed-inputs', step: 3 }])
  expect(readFileSync(path('run/alarms/step-000003/alarms.json'), 'utf8')).toContain('data.jsonl (held out)')
  expect((await tandemOk(resume('run', 4), { cwd })).stdout).not.toContain('changed-inputs')
})

it('refuses a changed recipe file, wherever the file is, and not a moved one', async () => {
  writeFileSync(path('package.json'), '{"type": "module"}')
  const own = readFileSync('recipes/wordProblems.ts', 'utf8')
  writeFileSync(path('own.ts'), own)
  const flags = ['--model', 'model', ...SMALL_FLAGS, '--steps', '1', '--out', 'owned']
  await tandemOk(['train', './own.ts', ...flags], { cwd })
  writeFileSync(path('own.ts'), `${own}\n// changed\n`)
  const refused = await tandem(resume('owned', 2), { cwd })
  expect(refused.stderr).toMatch(/have changed since its last session: recipe file\. /)
  writeFileSync(path('own.ts'), own)
  await tandemOk(resume('owned', 2), { cwd })
  copyFileSync(path('own.ts'), path('copy.ts'))
  await tandemOk(['train', './copy.ts', ...resume('owned', 3).slice(1)], { cwd })
})
