"""Side, severity and course of findings: sentences that were written and marked by hand before the reader was run."""

from __future__ import annotations

#: A sentence | each finding that it affirms, with the attributes that it gives it.
SENTENCES = """
Small left pleural effusion. | pleural effusion: left mild
There is a moderate right pneumothorax. | pneumothorax: right moderate
Large bilateral pleural effusions, unchanged. | pleural effusion: left right severe stable
Mild cardiomegaly is stable. | cardiomegaly: mild stable
Severe pulmonary edema has worsened since yesterday. | edema: severe worse
The right pleural effusion has decreased and is now small. | pleural effusion: right mild improved
New consolidation in the left lower lobe. | consolidation: left new
Unchanged right upper lobe nodule. New small left effusion. | lung lesion: right stable; pleural effusion: left mild new
Bibasilar atelectasis, slightly increased. | atelectasis: left right worse
Interval improvement in pulmonary edema, now mild. | edema: mild improved
Acute fractures of the right fifth and sixth ribs. | fracture: right
Stable mild enlargement of the cardiac silhouette. | cardiomegaly: mild stable
No left effusion; trace right effusion. | pleural effusion: right mild
Left chest tube with persistent small left pneumothorax. | support devices: left; pneumothorax: left mild stable
Worsening opacities in both lungs. | lung opacity: left right worse
Patchy opacity at the right base, new from prior. | lung opacity: right new
Minimal left basilar atelectasis. | atelectasis: left mild
Moderate-to-severe pulmonary edema. | edema: moderate severe
Heart size is mildly enlarged. | cardiomegaly: mild
The heart is severely enlarged, unchanged. | cardiomegaly: severe stable
Right internal jugular central venous catheter ends in the SVC. | support devices: right
Left-sided pacemaker with leads in the right atrium and right ventricle. | support devices: left
Resolving right lower lobe pneumonia. | pneumonia: right improved
Small to moderate right pleural effusion, increased. | pleural effusion: right mild moderate worse
Pleural thickening on the left is unchanged. | pleural abnormality: left stable
No change in the large left pneumothorax. | pneumothorax: left severe stable
Increased left effusion, decreased right effusion. | pleural effusion: left right worse improved
There is mild bilateral interstitial edema, which has improved. | edema: left right mild improved
Multiple pulmonary nodules in both lungs have grown. | lung lesion: left right worse
Right middle lobe collapse has not changed. | atelectasis: right stable
Large hiatal hernia; small left effusion. | pleural effusion: left mild
Compared with the prior study, the left pleural effusion is larger. | pleural effusion: left worse
A 2 cm nodule projects over the right mid lung. | lung lesion: right
The mediastinum is moderately widened. | enlarged mediastinum: moderate
New left lower lobe opacity may reflect pneumonia. | lung opacity: left new
Previously seen right pneumothorax has resolved. |
Extensive consolidation throughout the right lung, progressed. | consolidation: right severe worse
Left perihilar mass, similar in size to the previous examination. | lung lesion: left stable
Tiny right apical pneumothorax persists. | pneumothorax: right mild stable
Moderate cardiomegaly with mild edema and small bilateral effusions. | cardiomegaly: moderate; edema: mild; pleural effusion: left right mild
Cardiomegaly and small right effusion are unchanged. | cardiomegaly: stable; pleural effusion: right mild stable
Decreasing left retrocardiac opacity. | lung opacity: left improved
Healed left rib fractures. | fracture: left
Again seen is a right lung mass. | lung lesion: right stable
Marked cardiomegaly. | cardiomegaly: severe
Slight interval decrease in the moderate right effusion. | pleural effusion: right moderate improved
Interval placement of a left PICC. | support devices: left new
Small pleural effusions on both sides. | pleural effusion: left right mild
Left lung is clear; right basilar atelectasis is more prominent. | atelectasis: right worse
Interval enlargement of the cardiac silhouette. | cardiomegaly: worse
Mild pulmonary vascular congestion, stable. | edema: mild stable
Right pleural effusion, small. Left pleural effusion, large. | pleural effusion: left right mild severe
Stable postoperative change with new right pneumothorax. | pneumothorax: right new
Endotracheal tube is unchanged in position. | support devices: stable
Development of a right upper lobe consolidation. | consolidation: right new
Bilateral pleural plaques. | pleural abnormality: left right
Significant improvement of the left pneumonia. | pneumonia: left improved
There is a small amount of fluid in the right pleural space. | pleural effusion: right mild
Subtle left lower lobe opacity. | lung opacity: left mild
Dense right lower lobe pneumonia with large parapneumonic effusion. | pneumonia: right; pleural effusion: severe
"""
