export declare const AI_VERSION: string;
//# sourceMappingURL=version.d.ts.map