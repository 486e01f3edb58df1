/**
 * Tests that fail on a backend for a reason that is not ours. `npm run verify -- backend` wants
 * each of them to fail, and no other.
 */
import type { BackendName } from '@tandem-rl/tfjs-onnxruntime'

export interface KnownBad {
  /** The file below `test`, and the full title. */
  readonly file: string
  readonly test: string
  readonly reason: string
}

export const KNOWN_BAD: Readonly<Record<BackendName, readonly KnownBad[]>> = {
  tensorflow: [
    {
      file: 'objectives/updates/optimizer.test.ts',
      test: 'clipByGlobalNorm leaves gradients within the limit exactly as they are',
      reason: 'TensorFlow on the CPU takes denormal numbers for zero: 1.4e-45 times 1 is 0.',
    },
  ],
  onnxruntime: [],
  wasm: [
    {
      file: 'docs/readme.test.ts',
      test: 'README shows a program that learns: two steps of it run',
      reason: 'It takes longer than its limit of time: a training step is some fifty times slower than on onnxruntime.',
    },
    {
      file: 'modules/transformer/reference.golden.test.ts',
      test: 'qwen2 against Hugging Face Transformers computes the same logits, loss, gradients and greedy tokens on wasm, the left-padded row included',
      reason: 'Logits differ by 1.4e-6, the limit is 1e-6: its arithmetic rounds otherwise.',
    },
  ],
  cpu: [],
}
