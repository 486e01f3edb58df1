/**
 * onnxruntime's WebGPU provider on a GPU in software: SwiftShader, which comes with Chromium, or
 * Mesa's lavapipe.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { compiled, compiledFolder } from '../../../test/kit/compiled.js'
import type { DeviceRun } from '../../../test/kit/deviceRun.js'

const DRIVERS = [
  '/usr/lib/chromium/vk_swiftshader_icd.json',
  '/usr/share/vulkan/icd.d/lvp_icd.x86_64.json',
  '/usr/share/vulkan/icd.d/lvp_icd.json',
]
const LOADERS = ['/usr/lib/x86_64-linux-gnu/libvulkan.so.1', '/usr/lib/aarch64-linux-gnu/libvulkan.so.1']

const driver = DRIVERS.find((file) => existsSync(file))
const hasLoader = LOADERS.some((file) => existsSync(file))

const run = (device: 'cpu' | 'webgpu', env: Readonly<Record<string, string>> = {}): DeviceRun => {
  const output = execFileSync(process.execPath, [compiled('test/kit/deviceRun.ts'), device], {
    env: { ...process.env, ...env },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'], // Vulkan writes notes about the display to stderr
    maxBuffer: 2 ** 26,
  })
  return JSON.parse(output.trim().split('\n').at(-1)!) as DeviceRun // as the program prints it
}

describe.skipIf(driver === undefined || !hasLoader)(
  'WebGPU on a GPU in software (skipped without libvulkan1 and the driver of chromium or mesa-vulkan-drivers)',
  () => {
    it('scores, samples and trains as the CPU does, with every operation on the device', () => {
      const [cpu, gpu] = [run('cpu'), run('webgpu', { VK_ICD_FILENAMES: driver! })]
      expect(gpu.samples).toEqual(cpu.samples)
      for (const [i, row] of cpu.scores.entries()) {
        for (const [t, score] of row.entries()) expect(Math.abs(gpu.scores[i]![t]! - score)).toBeLessThan(1e-4)
      }
      for (const [i, { loss, gradNorm }] of cpu.steps.entries()) {
        expect(Math.abs(gpu.steps[i]!.loss - loss)).toBeLessThan(1e-4)
        expect(Math.abs(gpu.steps[i]!.gradNorm - gradNorm)).toBeLessThan(1e-4)
      }
      // JavaScript reads the most probable token of a sampling step: its int64 becomes an int32 on
      // the CPU.
      const { CPUExecutionProvider: onCpu = {}, WebGpuExecutionProvider: onDevice } = gpu.operators
      expect(Object.keys(onCpu)).toEqual(['Cast'])
      expect(onCpu.Cast).toBeLessThanOrEqual(8)
      expect(Object.values(onDevice!).reduce((sum, count) => sum + count, 0)).toBeGreaterThan(1000)
      // Weights and the optimizer's state stay on the device between steps.
      expect(gpu.bytesIn).toBeLessThan(gpu.parameterBytes / 2)
      expect(cpu.bytesIn).toBeGreaterThan(3 * cpu.parameterBytes)
    })
  },
)

describe('a machine without a GPU', () => {
  it('refuses the device webgpu with the reason', () => {
    const program = `import { selectBackend } from './packages/tfjs-onnxruntime/src/select.js'
await selectBackend({ device: 'webgpu' }).catch((error) => console.log(error.message))
process.exit(0)`
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
      cwd: compiledFolder(),
      env: { ...process.env, VK_ICD_FILENAMES: '/nonexistent.json', VK_DRIVER_FILES: '/nonexistent.json' },
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    expect(output).toContain('no tensor backend could be loaded. onnxruntime (onnxruntime-node):')
    expect(output).toMatch(/WebGPU adapter/)
  })
})
