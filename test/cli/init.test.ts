/** `tandem init` in a child process: the files it writes, and the folders it refuses. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { contentsOf, tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

describe('tandem init', () => {
  it('writes a project whose recipe is a recipe', async () => {
    const { stderr } = await tandemOk(['init', 'My Project'], { cwd })
    expect(stderr).toContain('npm install && npm start')
    const listed = ['.gitignore', '.npmrc', 'README.md', 'env.ts', 'laws.test.ts', 'package.json', 'recipe.ts']
    expect(readdirSync(path('My Project'))).toEqual([...listed, 'reward.ts', 'tsconfig.json'])
    expect(JSON.parse(readFileSync(path('My Project/package.json'), 'utf8'))).toMatchObject({ name: 'my-project' })
    const { stdout } = await tandemOk(['train', './recipe.ts', '--print-config'], { cwd: path('My Project') })
    expect(JSON.parse(stdout)).toMatchObject({ model: 'embedded', steps: 20 })
  })

  it('takes fewer than 60 lines for environment, reward and recipe', () => {
    const lines = ['env.ts', 'reward.ts', 'recipe.ts'].map((name) => readFileSync(path(`My Project/${name}`), 'utf8'))
    expect(lines.join('').trim().split('\n').length).toBeLessThan(60)
  })

  it('refuses a folder with anything in it, and leaves it as it was', async () => {
    writeFileSync(path('My Project/notes.txt'), 'mine')
    const before = contentsOf(path('My Project'))
    const { code, stderr } = await tandem(['init', 'My Project'], { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain('is not empty')
    expect(contentsOf(path('My Project'))).toEqual(before)
  })
})
