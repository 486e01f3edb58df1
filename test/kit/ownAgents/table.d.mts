export declare const codeOf: (question: string) => string
