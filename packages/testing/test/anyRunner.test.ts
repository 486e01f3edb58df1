/** The kit under another runner: node's own, in a process of its own. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'

mkdirSync('runs', { recursive: true }) // a folder that git ignores, below which the packages are found
const folder = mkdtempSync(join('runs', 'runner-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const PROGRAM = `
import { afterEach, before, beforeEach, it } from 'node:test'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { StepCounter } from 'tandem-rl'
import { dataSpec } from 'tandem-rl/tensordict'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { anyTransformSample, checkLaws, erased, leakChecks, requireCloseTensor, transformLaws } from '@tandem-rl/testing'

before(() => selectBackend({ backend: 'cpu' }))
leakChecks({ beforeEach, afterEach })
const samples = anyTransformSample({ observation: { query: dataSpec('string') }, action: {} })
checkLaws(it, transformLaws(fc.constant(erased(StepCounter())), samples, 3))
it('leaks', () => void tf.keep(tf.zeros([1])))
it('is not close', () => tf.tidy(() => requireCloseTensor(tf.ones([2]), [1, 2])))
`

describe('node:test', () => {
  it('runs laws, leak checks and comparisons, and reports what fails', () => {
    const file = join(folder, 'kit.test.ts')
    writeFileSync(file, PROGRAM)
    const args = ['--import', 'tsx', '--test', '--test-reporter=tap', file]
    const { stdout, status } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(stdout).toMatch(/# pass 6\n# fail 2\n/)
    expect(stdout).toContain('1 tensors left alive')
    expect(stdout).toContain('element [1] is 1, expected 2; 1 of 2 differ')
    expect(status).toBe(1)
  })
})
